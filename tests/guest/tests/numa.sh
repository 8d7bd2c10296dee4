# Placement on the guest's two NUMA nodes, before memory is registered and becomes immovable.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "with local placement what a thread mallocs lies on its own NUMA node" \
  env RDMALLOC_NUMA=local $with "$programs/numa"
control "with glibc it lies where it is touched first" \
  "first touch by the other node's: .* pages are not on node" "$programs/numa"
control "by default it lies where it is touched first, too" \
  "first touch by the other node's: .* pages are not on node" $with "$programs/numa"
control "with placement off a thread gets what another node's thread has freed" \
  "what the other node's thread had freed: .* pages are not on node" \
  env RDMALLOC_NUMA=off $with "$programs/numa"
