# fork with a registered heap.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "a child works on its heap, and its parent's device on the parent's" \
  $with "$programs/forks"
promise "a child works on its heap when somebody has called ibv_fork_init" \
  $with "$programs/forks" init
promise "a child works on its heap under RDMAV_FORK_SAFE" \
  env RDMAV_FORK_SAFE=1 $with "$programs/forks"
control "a child dies of a registered glibc buffer when somebody has called ibv_fork_init" \
  "the child was killed: Segmentation fault" \
  "$programs/forks" init
