# shellcheck shell=sh
# Where tests find jemalloc's sources. Source it where $work is a folder.

# Prints the tree that RDMALLOC_JEMALLOC_SOURCE names, or unpacks Debian's in $work; nothing if
# neither exists.
jemalloc_tree() {
  if [ -n "${RDMALLOC_JEMALLOC_SOURCE:-}" ]; then
    echo "$RDMALLOC_JEMALLOC_SOURCE"
    return
  fi
  # Works whether or not apt is configured for source packages.
  mkdir -p "$work/apt/lists/partial" "$work/apt/source"
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) bookworm main" > "$work/apt/sources.list"
  (cd "$work/apt/source" && chmod 777 . && set -- -o Dir::Etc::SourceList="$work/apt/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/apt/lists" -o APT::Sandbox::User=root &&
    timeout 300 apt-get -q "$@" update && timeout 300 apt-get -q "$@" source --download-only jemalloc) \
    > "$work/log" 2>&1 || return 0
  mkdir "$work/jemalloc"
  tar -x -C "$work/jemalloc" --strip-components=1 -f "$work"/apt/source/jemalloc_5.3.*.orig.tar.*
  echo "$work/jemalloc"
}
mirror() {
  apt-get indextargets --format '$(SITE)' 2> /dev/null | grep -m1 -E '/debian/?$'
}
