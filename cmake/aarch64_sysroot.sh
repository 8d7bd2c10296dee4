#!/bin/sh
# What a build for AArch64 needs of Debian's arm64 packages, unpacked in a folder: nothing is
# installed, so that this host stays what it is, and root is not needed. Does nothing where the
# folder has it all.
#
#   aarch64_sysroot.sh FOLDER [PACKAGE...]    with more packages, such as an emulated machine's programs
set -eu
[ $# -ge 1 ] || { echo "usage: sh cmake/aarch64_sysroot.sh FOLDER [PACKAGE...]" >&2; exit 2; }
packages="libc6-dev libstdc++6 libjemalloc-dev libhwloc-dev libibverbs-dev libfabric-dev libucx-dev
  libboost-dev libncurses-dev libzstd-dev catch2 liburing-dev libbenchmark-dev libcli11-dev
  nlohmann-json3-dev"

mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
packages="$packages $*"
have=$folder/packages
wanted=$(echo "$packages" | tr -s ' \n' '\n')
if [ "$(cat "$have" 2> /dev/null)" = "$wanted" ]; then
  exit 0
fi

# A state of apt of its own, in which nothing is installed: so all that the packages depend on is
# fetched with them.
apt=$folder/.apt
rm -rf "$apt"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
: > "$apt/status"
private_apt() {
  apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$apt" \
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o APT::Install-Recommends=false "$@"
}
private_apt update
# shellcheck disable=SC2086  # a list of words
private_apt -y --download-only install $packages
for package in "$apt"/cache/archives/*.deb; do
  dpkg-deb -x "$package" "$folder"
done
rm -rf "$apt"

# Links to absolute names would lead to the host's files.
find "$folder" -type l -lname '/*' | while read -r link; do
  ln -snf --relative "$folder$(readlink "$link")" "$link"
done
echo "$wanted" > "$have"
