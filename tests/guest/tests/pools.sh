# Pools of buffers, with a device that has remote keys and on two NUMA nodes.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "a pool's buffers go out by their lkey, and a peer reaches the exposed ones alone" \
  $with "$programs/pools" keys
promise "a pool's buffers lie on the node of the thread that gets them, whoever put them" \
  $with "$programs/pools" numa
control "with placement off a pool's buffers lie anywhere" \
  "buffers are not on node" \
  env RDMALLOC_NUMA=off $with "$programs/pools" numa
