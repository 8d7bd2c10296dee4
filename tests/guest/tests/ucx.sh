# Open MPI and MPICH over UCX over the device, unmodified, under `rdmalloc run --ucx`: what UCX
# registers of the heap is answered with the keys of regions.
. "$GUEST_SOURCE/tests/guest/common.sh"
requires mpirun.openmpi "no Open MPI: type: sh cmake/bootstrap.sh test"
requires "$programs/ucx_loop" "the MPI program was not built, for want of libopenmpi-dev"
# Counts for the whole program, not only the loop: UCX's own pools, and each region once.
counted="sh $GUEST_SOURCE/tests/guest/counted"
# Prints the time per message with and without the library; keeps the command's exit status.
timed="sh $GUEST_SOURCE/tests/guest/ucx_timed"
mpirun="mpirun.openmpi -np 2 --allow-run-as-root --oversubscribe --mca pml ucx
  --mca btl self -x UCX_NET_DEVICES=rxe0:1 -x UCX_TLS=rc_v,self -x UCX_UD_VERBS_ETH_DGID_CHECK=n"
# UCX's newer protocols, the default since 1.16.
newer="-x UCX_PROTO_ENABLE=y"
# glibc returns a freed message's memory; the threshold is fixed, or the first free would raise it. The
# controls need few rounds.
stock="-x MALLOC_MMAP_THRESHOLD_=65536"
shim="$rdmalloc run --ucx --"

control "with glibc an Open MPI loop registers freed and new messages again and again" \
  "0 bytes or children wrong, [1-9][0-9]* memory regions" \
  $counted 1000 $timed openmpi without $mpirun $stock "$programs/ucx_loop" 3 0
promise "an Open MPI loop that mallocs each message registers nothing in steady state under --ucx" \
  $counted 100 $timed openmpi with $mpirun $shim "$programs/ucx_loop" 15 0
promise "with UCX's newer protocols, too, an Open MPI loop registers nothing in steady state" \
  $counted 100 $mpirun $newer $shim "$programs/ucx_loop" 8 0
# At each fork UCX empties its caches: each buffer is answered anew.
promise "children of an MPI program under --ucx have their heap, and its messages stay right" \
  $counted 100 $mpirun $shim "$programs/ucx_loop" 8 0 fork
# Enough for UCX, too little for UCX and the heap.
promise "with little memlock an Open MPI program over UCX runs on" \
  sh "$GUEST_SOURCE/tests/guest/ucx_user" 65536 $mpirun $shim "$programs/pingpong" 20

requires mpirun.mpich "no MPICH: type: sh cmake/bootstrap.sh test"
requires "$programs/ucx_loop_mpich" "the MPI program was not built, for want of libmpich-dev"
mpich="mpirun.mpich -np 2 -genv UCX_NET_DEVICES rxe0:1 -genv UCX_TLS rc_v,self
  -genv UCX_UD_VERBS_ETH_DGID_CHECK n"
control "with glibc an MPICH loop registers freed and new messages again and again" \
  "0 bytes or children wrong, [1-9][0-9]* memory regions" \
  $counted 1000 $timed mpich without $mpich -genv MALLOC_MMAP_THRESHOLD_ 65536 \
  "$programs/ucx_loop_mpich" 3 0
promise "an MPICH loop that mallocs each message registers nothing in steady state under --ucx" \
  $counted 100 $timed mpich with $mpich $shim "$programs/ucx_loop_mpich" 15 0
