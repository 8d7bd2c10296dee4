#!/bin/sh
# Runs a command with a pool of this many 2 MiB pages, then restores the old size.
#
#   huge_pool.sh PAGES COMMAND ARGUMENTS
set -eu
. "$(dirname "$0")/../support/verdict.sh"
pool=/proc/sys/vm/nr_hugepages
[ -w "$pool" ] || skip "only root can change the huge page pool"
wanted=$1
shift
old=$(cat "$pool")
trap 'echo "$old" >"$pool"' EXIT
echo "$wanted" >"$pool"
[ "$(cat "$pool")" = "$wanted" ] || skip "the kernel gives no such pool"
"$@"
