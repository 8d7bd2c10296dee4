#!/bin/sh
# Runs a command with a pool of 2 MiB pages of the given size, and puts the old size back.
#
#   huge_pool.sh PAGES COMMAND ARGUMENTS
set -eu
pool=/proc/sys/vm/nr_hugepages
[ -w "$pool" ] || { echo "SKIPPED: changing the huge page pool needs root"; exit 77; }
wanted=$1
shift
old=$(cat "$pool")
trap 'echo "$old" >"$pool"' EXIT
echo "$wanted" >"$pool"
[ "$(cat "$pool")" = "$wanted" ] || { echo "SKIPPED: the kernel gives no such pool"; exit 77; }
"$@"
