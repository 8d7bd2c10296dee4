# Placement on four NUMA nodes of a processor each.
. "$GUEST_SOURCE/tests/guest/common.sh"
# Where a node has little free memory the kernel takes another one's.
echo 3 > /proc/sys/vm/drop_caches

promise "what threads of four nodes touch first lies on their nodes" \
  $with "$programs/placement" touch
promise "so it does with glibc" "$programs/placement" touch
control "with local placement it lies where malloc was called" \
  "fresh memory: node 1's part lies at 1.0" \
  env RDMALLOC_NUMA=local $with "$programs/placement" touch
promise "what threads of four nodes touch first lies there with a domain open, and has a key" \
  $with "$programs/placement" touch domain
control "with local placement and a domain open it lies where malloc was called" \
  "beside a domain: node 1's part lies at 1.0" \
  env RDMALLOC_NUMA=local $with "$programs/placement" touch domain
promise "rdmalloc stats --numa tells how much of it lies on which node" \
  $with "$programs/placement" told "$rdmalloc"

promise "under numactl --interleave memory is spread as that says" \
  $with "$programs/placement" policy interleave
promise "under numactl --interleave memory is spread with local placement, too" \
  env RDMALLOC_NUMA=local $with "$programs/placement" policy interleave
promise "under numactl --membind memory lies where that says" \
  $with "$programs/placement" policy bind
promise "under numactl --preferred memory lies where that says" \
  $with "$programs/placement" policy preferred
promise "with glibc it is spread under numactl --interleave" \
  "$programs/placement" policy interleave

promise "what four nodes need in turn is held once, and at most a quarter more" \
  $with "$programs/placement" turns
