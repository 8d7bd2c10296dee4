# perftest, unmodified, under `rdmalloc run --verbs`, as server and client.
. "$GUEST_SOURCE/tests/guest/common.sh"
requires ib_write_bw "no perftest: type: sh cmake/bootstrap.sh test"
# Each program registers one buffer; at exit the shim says who served the registration.
pair="sh $GUEST_SOURCE/tests/guest/pair.sh"
answered="1 answered.from.regions"
share="$rdmalloc run --verbs --share-remote --"
perftest="-d rxe0 -x 1 -F -n 100"
export RDMALLOC_VERBS_STATS=on

promise "ib_write_bw runs with its buffer answered from a region" \
  $pair "$answered" $share ib_write_bw $perftest -s 65536
promise "ib_read_lat runs with its buffer answered from a region" \
  $pair "$answered" $share ib_read_lat $perftest -s 4096
promise "ib_send_bw runs with its buffer answered from a region" \
  $pair "$answered" $rdmalloc run --verbs -- ib_send_bw $perftest -s 65536
control "ib_send_bw registers its buffer itself" \
  "one of them has no line that matches" $pair "$answered" ib_send_bw $perftest -s 65536
