# libfabric over the device: the backend, and unaware programs under the shim.
. "$GUEST_SOURCE/tests/guest/common.sh"
counted="sh $GUEST_SOURCE/tests/guest/counted"
own=$GUEST_BUILD/tests/integration
shim="$rdmalloc run --ofi --"
device="verbs;ofi_rxm 10.9.0.1"
export FI_UNIVERSE_SIZE=4
requires "$own/integration_ofi_stale" "the programs were not built, for want of libfabric-dev"

promise "libfabric writes by the key of a lookup, and what it pins is in the books" \
  $with "$own/integration_ofi_real" $device pins
# Two messages per mapping, one from malloc: each mapping is registered once.
promise "no byte is stale through libfabric's cache, which keeps what did not change" \
  $counted 160 $shim "$own/integration_ofi_stale" $device 100
control "a libfabric that is told to trust all memory sends old bytes" \
  "bytes of message .*: the peer has others" \
  "$own/integration_ofi_stale" $device 100 trusting

requires mpirun.openmpi "no Open MPI: type: sh cmake/bootstrap.sh test"
requires "$programs/pingpong" "the MPI program was not built, for want of libopenmpi-dev"
mpirun="mpirun.openmpi -np 2 --allow-run-as-root --oversubscribe --mca pml cm --mca mtl ofi
  --mca btl self --mca mtl_ofi_provider_include verbs;ofi_rxm"
promise "an MPI ping-pong over libfabric that mallocs each message needs few registrations" \
  $counted 60 $mpirun $shim "$programs/pingpong" 12
# glibc's default threshold, fixed: memory of large messages is returned when they are freed.
control "without us libfabric registers freed and new messages again and again" \
  "memory regions were registered by the driver, at most 60 expected" \
  $counted 60 $mpirun -x MALLOC_MMAP_THRESHOLD_=131072 "$programs/pingpong" 12
