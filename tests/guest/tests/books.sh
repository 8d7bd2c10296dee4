# The books are the kernel's.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "the books equal VmLck and VmPin with no, one and two verbs domains" 60 \
  $with "$programs/books"
control "a registration the library does not know of is noticed in the books" 60 \
  $with "$programs/books" hidden
