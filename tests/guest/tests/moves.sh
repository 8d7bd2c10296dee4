# An address keeps its page while the kernel or the program tries to separate them.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "registered heap stays in its frames through compaction and migration between NUMA nodes" \
  $with "$programs/moves" migrate
control "mlocked glibc memory moves to the other NUMA node" \
  "after .*: a page of .* is in frame .*, was in" "$programs/moves" migrate
promise "the heap's pages are not dropped or swapped on the program's own advice" \
  $with "$programs/moves" advise
control "a registered glibc buffer goes stale on the program's own advice" \
  "after MADV_DONTNEED: the device sees other bytes" \
  "$programs/moves" advise
