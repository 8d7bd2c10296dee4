# Open MPI over UCX over the device, unmodified, under `rdmalloc run --verbs`.
. "$GUEST_SOURCE/tests/guest/common.sh"
requires mpirun.openmpi "no Open MPI: type: sh cmake/bootstrap.sh test"
requires "$programs/pingpong" "the MPI program was not built, for want of libopenmpi-dev"
few="sh $GUEST_SOURCE/tests/guest/counted 60"
mpirun="mpirun.openmpi -np 2 --allow-run-as-root --oversubscribe --mca pml ucx
  --mca btl self -x UCX_NET_DEVICES=rxe0:1 -x UCX_TLS=rc_v,self -x UCX_UD_VERBS_ETH_DGID_CHECK=n"
# UCX without its registration cache, hence without its hooks into malloc and munmap.
uncached="-x UCX_IB_REG_METHODS=direct"
shim="$rdmalloc run --verbs --share-remote --"
export RDMALLOC_VERBS_STATS=on

promise "an MPI ping-pong that mallocs each message is right, and needs few registrations" 60 \
  $few $mpirun $shim "$programs/pingpong" 20
# glibc's default threshold, held: the memory of large messages goes back when they are freed.
control "with glibc the same ping-pong registers freed and new messages again and again" 60 \
  $few $mpirun -x MALLOC_MMAP_THRESHOLD_=131072 "$programs/pingpong" 20
promise "an MPI ping-pong needs few registrations with UCX's cache and hooks off, too" 60 \
  $few $mpirun $uncached $shim "$programs/pingpong" 20
control "without us and without its cache UCX registers each large message" 60 \
  $few $mpirun $uncached "$programs/pingpong" 20
