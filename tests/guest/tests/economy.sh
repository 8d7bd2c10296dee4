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
promise "ib_write_bw registers no more with us than without" 90 \
  $compared "$share" "ib_write_bw $perftest" "ib_write_bw $perftest $address"
promise "ib_read_bw registers no more with us than without" 90 \
  $compared "$share" "ib_read_bw $perftest" "ib_read_bw $perftest $address"
promise "ib_send_bw registers no more with us than without" 90 \
  $compared "$verbs" "ib_send_bw $perftest" "ib_send_bw $perftest $address"
promise "ib_send_bw over UD registers no more with us than without" 90 \
  $compared "$verbs" "ib_send_bw -c UD $perftest" "ib_send_bw -c UD $perftest $address"
promise "ib_atomic_bw registers no more with us than without" 90 \
  $compared "$share" "ib_atomic_bw -d rxe0 -x 1 -F -n 100" \
  "ib_atomic_bw -d rxe0 -x 1 -F -n 100 $address"

requires ucmatose "no rdmacm-utils: type: sh cmake/bootstrap.sh test"
promise "rping registers no more with us than without" 90 \
  $compared "$share" "rping -s -a $address -C 20" "rping -c -a $address -C 20"
# Each connection has its own protection domain.
promise "ucmatose with 5 connections registers no more with us than without" 90 \
  $compared "$verbs" "ucmatose -c 5" "ucmatose -c 5 -s $address"
promise "ucmatose with 50 connections registers no more with us than without" 90 \
  $compared "$share" "ucmatose -c 50" "ucmatose -c 50 -s $address"
