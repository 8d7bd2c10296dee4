# Programs that do not use rdmalloc pay nothing for it: with the library the device's driver
# registers at most one memory region more than without. Counts are the kernel's, for server and
# client together.
. "$GUEST_SOURCE/tests/guest/common.sh"
compared="sh $GUEST_SOURCE/tests/guest/compared"
verbs="$rdmalloc run --verbs --"
share="$rdmalloc run --verbs --share-remote --"
address=10.9.0.1
perftest="-d rxe0 -x 1 -F -n 100 -s 8"

requires ib_write_bw "no perftest: type: sh cmake/bootstrap.sh test"
promise "ib_write_bw registers no more with us than without" \
  $compared "$share" "ib_write_bw $perftest" "ib_write_bw $perftest $address"
promise "ib_read_bw registers no more with us than without" \
  $compared "$share" "ib_read_bw $perftest" "ib_read_bw $perftest $address"
promise "ib_send_bw registers no more with us than without" \
  $compared "$verbs" "ib_send_bw $perftest" "ib_send_bw $perftest $address"
promise "ib_send_bw over UD registers no more with us than without" \
  $compared "$verbs" "ib_send_bw -c UD $perftest" "ib_send_bw -c UD $perftest $address"
promise "ib_atomic_bw registers no more with us than without" \
  $compared "$share" "ib_atomic_bw -d rxe0 -x 1 -F -n 100" \
  "ib_atomic_bw -d rxe0 -x 1 -F -n 100 $address"

requires ucmatose "no rdmacm-utils: type: sh cmake/bootstrap.sh test"
promise "rping registers no more with us than without" \
  $compared "$share" "rping -s -a $address -C 20" "rping -c -a $address -C 20"
# Each connection has its own protection domain.
promise "ucmatose with 5 connections registers no more with us than without" \
  $compared "$verbs" "ucmatose -c 5" "ucmatose -c 5 -s $address"
promise "ucmatose with 50 connections registers no more with us than without" \
  $compared "$share" "ucmatose -c 50" "ucmatose -c 50 -s $address"

mpirun="mpirun.openmpi -np 2 --allow-run-as-root --oversubscribe --mca pml ucx
  --mca btl self -x UCX_NET_DEVICES=rxe0:1 -x UCX_TLS=rc_v,self -x UCX_UD_VERBS_ETH_DGID_CHECK=n"
requires mpirun.openmpi "no Open MPI: type: sh cmake/bootstrap.sh test"
requires "$programs/pingpong" "the MPI program was not built, for want of libopenmpi-dev"
promise "an MPI ping-pong over UCX registers no more with us than without" \
  $compared "$rdmalloc run --ucx --" "$mpirun @ $programs/pingpong 20"
# UCX alone maps all of the heap in advance, asked for or not.
control "an MPI ping-pong over UCX whose contexts have the heap mapped registers more" \
  "registered without us, [0-9]* with us" \
  $compared "env LD_PRELOAD=$library:$GUEST_BUILD/lib/librdmalloc-ucx.so" \
  "$mpirun @ $programs/pingpong 20"

absent=
requires ucx_perftest "no ucx-utils: type: sh cmake/bootstrap.sh test"
export UCX_NET_DEVICES=rxe0:1 UCX_TLS=rc_v,self UCX_UD_VERBS_ETH_DGID_CHECK=n
promise "ucx_perftest registers no more with us than without" \
  $compared "$rdmalloc run --ucx --" "ucx_perftest -t tag_bw -s 65536 -n 50" \
  "ucx_perftest -t tag_bw -s 65536 -n 50 $address"

absent=
requires fi_pingpong "no libfabric-bin: type: sh cmake/bootstrap.sh test"
promise "fi_pingpong registers no more with us than without" \
  $compared "$rdmalloc run --ofi --" "fi_pingpong -B @port -p verbs -e msg" \
  "fi_pingpong -P @port -p verbs -e msg $address"
promise "fi_pingpong over ofi_rxm registers no more with us than without" \
  env FI_UNIVERSE_SIZE=4 $compared "$rdmalloc run --ofi --" "fi_pingpong -B @port -p verbs;ofi_rxm -e rdm" \
  "fi_pingpong -P @port -p verbs;ofi_rxm -e rdm $address"
promise "fi_pingpong under the verbs shim registers no more with us than without" \
  $compared "$share" "fi_pingpong -B @port -p verbs -e msg" \
  "fi_pingpong -P @port -p verbs -e msg $address"
