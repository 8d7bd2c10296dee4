# What must hold on every kernel, without RDMA: bytes, books, what a system-call filter leaves, what
# is locked, what is held. Use --kernel for kernels other than Debian's own.
. "$GUEST_SOURCE/tests/guest/common.sh"
requires setpriv "no setpriv: type: sh cmake/bootstrap.sh test"
tests=$GUEST_BUILD/tests/integration
user="setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all"

promise "info finds every allocation in the window and says what this kernel can do" \
  "$rdmalloc" info
promise "blocks of all sizes keep their bytes on this kernel" \
  $with "$tests/integration_confined" not
promise "blocks of all sizes keep their bytes on this kernel when pages are moved at each growth" \
  $with RDMALLOC_GATHER=always "$tests/integration_confined" not
promise "behind a filter of system calls they are pinned as before on this kernel" \
  $with RDMALLOC_GATHER=off "$tests/integration_confined" prctl pinned
promise "threads behind a filter of system calls malloc on this kernel" \
  $with "$tests/integration_confined" threads
control "a page that a filter keeps from being locked is noticed on this kernel" \
  "bytes were acquired, and [0-9]+ locked" \
  prlimit --memlock=65536 $user $with "$tests/integration_confined" prctl pinned
promise "a forked child has its heap, the parent its pins, on this kernel" \
  $with "$tests/integration_fork_heap"
promise "after munlockall the books say what this kernel says" \
  $with "$tests/integration_locks" munlockall
promise "mlockall under a finite limit does what it does without us on this kernel" \
  prlimit --memlock=33554432 $user $with "$tests/integration_lock_all" now
promise "mlockall of what comes later, too, on this kernel" \
  prlimit --memlock=33554432 $user $with "$tests/integration_lock_all" later
promise "mlockall beyond the limit fails and locks nothing on this kernel" \
  prlimit --memlock=8388608 $user $with "$tests/integration_lock_all" too-much
promise "mlockall counts nothing that is only reserved on this kernel" \
  $with "$tests/integration_lock_all" by-right
# Or the kernel may move pages that nobody has pinned: into huge ones, and to the node that reads them.
echo 4000000000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
echo 0 > /proc/sys/kernel/numa_balancing
promise "a small program has no huge pages though this kernel gives them unasked" \
  env LD_PRELOAD="$library" awk '/^[0-9a-f]+-/ { mapping = $0 }
    /^AnonHugePages/ && $2 > 0 { kib += $2; print mapping ": " $2 " KiB" } END { exit kib > 0 }' \
  /proc/self/smaps
promise "growing by realloc keeps page frames on this kernel" \
  $with "$tests/integration_growing" realloc
control "without gathering it is copied to other frames on this kernel" \
  "page 0 of [0-9]+ is another one" \
  $with RDMALLOC_GATHER=off "$tests/integration_growing" realloc
promise "calloc of fresh pages touches none on this kernel" \
  $with "$tests/integration_growing" calloc
promise "pages stay in their frames through compaction and migration on this kernel" \
  $with "$programs/moves" migrate
