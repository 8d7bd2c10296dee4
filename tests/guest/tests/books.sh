# The books are the kernel's. Where pages lie on the node of whoever touches them first, large blocks
# are registered when they are looked up; with local placement, as they come.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "the books equal VmLck and VmPin with no, one and two verbs domains" 60 \
  env RDMALLOC_NUMA=local $with "$programs/books"
promise "so they do where blocks are registered when they are looked up" 60 \
  $with "$programs/books" looked-up
control "a registration the library does not know of is noticed in the books" 60 \
  env RDMALLOC_NUMA=local $with "$programs/books" hidden
