# The books match the kernel's. With first-touch placement large blocks are registered when they are
# looked up; with local placement, when they are allocated.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "the books equal VmLck and VmPin with no, one and two verbs domains" \
  env RDMALLOC_NUMA=local $with "$programs/books"
promise "the books equal VmLck and VmPin where blocks are registered at their first lookup" \
  $with "$programs/books" looked-up
control "a registration the library does not know of is noticed in the books" \
  "the books say 0 bytes are pinned by registering, the kernel [1-9]" \
  env RDMALLOC_NUMA=local $with "$programs/books" hidden
