#!/bin/bash
# Bash completion is generated from the command line's own tables, so it has every flag.
# shellcheck disable=SC1091,SC2034,SC2154
. "$(dirname "$0")/common.sh"

# complete_line WORDS... LAST: what is offered for the last word; words are split as bash splits
# them.
complete_line() {
  COMP_WORDS=(rdmalloc) COMPREPLY=()
  for word; do
    case $word in
      --*=*) COMP_WORDS+=("${word%%=*}" "=" "${word#*=}") ;;
      *) COMP_WORDS+=("$word") ;;
    esac
  done
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _rdmalloc
  echo "${COMPREPLY[*]}"
}

is() {
  [ "$2" = "$1" ] || fail "offered is '$2', expected was '$1'"
}

load() {
  "$rdmalloc" completion > "$work/completion" || fail "no completion is printed"
  bash -n "$work/completion" || fail "what is printed is no script"
  . "$work/completion"
}

every_flag() {
  load
  for command in "" run info doctor options shm-plan study top stats "trace record" "trace replay" "trace import" \
    "trace text" "trace info"; do
    # shellcheck disable=SC2086  # words
    offered=$(complete_line $command -- | tr ' ' '\n' | sort)
    # shellcheck disable=SC2086  # words
    flags=$("$rdmalloc" $command --help | sed -n '/^Options/,$p' |
      sed -n 's/^  \(-[a-z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' | sort -u)
    [ -n "$flags" ] || fail "no flags of '$command' could be read"
    is "$flags" "$offered"
  done
}

values() {
  load
  is "run " "$(complete_line ru) "
  is "record replay" "$(complete_line trace re)"
  is "thp" "$(complete_line run --huge th)"
  is "thp" "$(complete_line run --huge=th)"
  is "on off" "$(complete_line run --strict=o)"
  is "--numa" "$(complete_line run --strict --cap 1G --num)"
  is "" "$(complete_line nonsense --num)"
  touch "$work/a report"
  is "$work/a report" "$(complete_line run --report "$work/a")"
  # The program's own arguments are not completed.
  is "" "$(complete_line run --strict -- program --num)"
  is "sha256sum" "$(complete_line run --huge thp sha256s)"
}

run_case "$@"
