# Open MPI over UCX over the device, unmodified, under `rdmalloc run --verbs`.
. "$GUEST_SOURCE/tests/guest/common.sh"
requires mpirun.openmpi "no Open MPI: type: sh cmake/bootstrap.sh test"
requires "$programs/pingpong" "the MPI program was not built, for want of libopenmpi-dev"
few="sh $GUEST_SOURCE/tests/guest/counted 60"
mpirun="mpirun.openmpi -np 2 --allow-run-as-root --oversubscribe --mca pml ucx
  --mca btl self -x UCX_NET_DEVICES=rxe0:1 -x UCX_TLS=rc_v,self -x UCX_UD_VERBS_ETH_DGID_CHECK=n"
# Without its registration cache UCX installs no hooks into malloc and munmap.
uncached="-x UCX_IB_REG_METHODS=direct"
shim="$rdmalloc run --verbs --share-remote --"
export RDMALLOC_VERBS_STATS=on

promise "an MPI ping-pong that mallocs each message is right, and needs few registrations" \
  $few $mpirun $shim "$programs/pingpong" 20
# glibc's default threshold, fixed: memory of large messages is returned when they are freed. Half the
# rounds show it.
control "with glibc the same ping-pong registers freed and new messages again and again" \
  "memory regions were registered by the driver, at most 60 expected" \
  $few $mpirun -x MALLOC_MMAP_THRESHOLD_=131072 "$programs/pingpong" 10
promise "an MPI ping-pong needs few registrations with UCX's cache and hooks off, too" \
  $few $mpirun $uncached $shim "$programs/pingpong" 20
control "without us and without its cache UCX registers each large message" \
  "memory regions were registered by the driver, at most 60 expected" \
  $few $mpirun $uncached "$programs/pingpong" 10
together="$rdmalloc run --ucx --verbs --share-remote --"
promise "an MPI ping-pong under both shims and with shared rights is right, and needs few registrations" \
  $few $mpirun $together "$programs/pingpong" 20
promise "Open MPI's windows over malloc'd memory carry the right bytes over the device" \
  $mpirun --mca osc ucx $rdmalloc run --ucx -- "$GUEST_BUILD/tests/mpi/messages.openmpi" onesided

# MPICH, with the settings that regcache/MPI.md gives for cards.
requires mpirun.mpich "no MPICH: type: sh cmake/bootstrap.sh test"
requires "$GUEST_BUILD/tests/mpi/messages.mpich" "the MPI program was not built, for want of libmpich-dev"
mpich="mpirun.mpich -np 2 -genv UCX_NET_DEVICES rxe0:1 -genv UCX_TLS rc_v,self
  -genv UCX_UD_VERBS_ETH_DGID_CHECK n"
messages="$GUEST_BUILD/tests/mpi/messages.mpich isend"
promise "an MPICH program that frees messages right after the wait is right, and needs few registrations" \
  $few $mpich $shim $messages
control "with glibc the same MPICH program registers freed and new messages again and again" \
  "memory regions were registered by the driver, at most 60 expected" \
  $few $mpich -genv MALLOC_MMAP_THRESHOLD_ 131072 $messages
promise "an MPICH program under both shims and with shared rights is right, and needs few registrations" \
  $few $mpich $together $messages
promise "MPICH's windows over malloc'd memory carry the right bytes over the device" \
  $mpich $rdmalloc run --ucx -- "$GUEST_BUILD/tests/mpi/messages.mpich" onesided

# As a user would set them in the environment.
export UCX_NET_DEVICES=rxe0:1 UCX_TLS=rc_v,self UCX_UD_VERBS_ETH_DGID_CHECK=n
recipes="env RDMALLOC_BUILD=$GUEST_BUILD python3 -B $GUEST_SOURCE/tests/mpi/recipes_test.py"
of_cards="$GUEST_SOURCE/regcache/MPI.md"
promise "each line that MPI.md gives for Open MPI with a card works as written" \
  $recipes openmpi $of_cards:openmpi-card
promise "each line that MPI.md gives for MPICH with a card works as written" \
  $recipes mpich $of_cards:mpich-card
