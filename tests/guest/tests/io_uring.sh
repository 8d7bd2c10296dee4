# The io_uring backend on the guest's kernel, which is older than most hosts': the programs are
# those of tests/integration.
. "$GUEST_SOURCE/tests/guest/common.sh"
ring=$GUEST_BUILD/tests/integration/integration_

promise "io_uring: the peer gets the new buffer's bytes, by the key of its address" \
  $with "${ring}classic" 1500 2
control "io_uring: with glibc the peer gets the old buffer's bytes" \
  "the peer got the freed buffer's bytes" \
  env MALLOC_MMAP_THRESHOLD_=131072 "${ring}classic" 1500 2
# With local placement every region is registered when it appears, not when it is looked up.
promise "io_uring: the books equal the kernel's with 0, 1 and 2 domains" \
  $with RDMALLOC_NUMA=local "${ring}domain_books" 16
promise "io_uring: closefrom() does not close a ring of our own" \
  $with RDMALLOC_NUMA=local RDMALLOC_COUNTERS_FROM=0 "${ring}domain_descriptors" own
promise "io_uring: no page of a registered heap moves or goes" \
  $with "${ring}domain_stability" advice
promise "io_uring: a forked child owns no registration, and the parent's device stays right" \
  $with "${ring}domain_fork" child
promise "io_uring: domains may be opened and closed while threads send" \
  $with "${ring}domain_traffic" 3
# Placement is off: a thread that the kernel moves to the other node would warm up its pool too.
promise "io_uring: after warm-up nothing is registered" \
  $with RDMALLOC_NUMA=off RDMALLOC_SANDBOX=off "${ring}domain_steady"
