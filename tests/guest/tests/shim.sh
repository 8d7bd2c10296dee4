# Programs that know nothing of rdmalloc, under `rdmalloc run --verbs`: they receive the right
# bytes, and their registrations are served without the driver. Counts of registrations are the
# kernel's.
. "$GUEST_SOURCE/tests/guest/common.sh"
counted="sh $GUEST_SOURCE/tests/guest/counted"
verbs="$rdmalloc run --verbs --"
share="$rdmalloc run --verbs --share-remote --"
export RDMALLOC_VERBS_STATS=on

# The program registers one region itself: the peer's buffer, which is not from malloc.
promise "a thousand malloc'd messages are sent by a few registrations under the shim" \
  $counted 40 $verbs "$programs/messages" 1000
promise "the library alone, without the shim, does no harm to a program that registers by itself" \
  $counted 1001 $with "$programs/messages" 1000
control "a thousand messages are a thousand registrations" \
  "^1001 memory regions were registered by the driver" \
  $counted 40 "$programs/messages" 1000
promise "what a peer may read is registered by itself unless sharing was asked for" \
  $counted 1040 $verbs "$programs/messages" 1000 remote
control "without --share-remote remote rights are not shared" \
  "1001 calls of ibv_reg_mr: 0 answered from regions" \
  $counted 40 $verbs "$programs/messages" 1000 remote
promise "with --share-remote a few registrations serve the peer's reads, too" \
  $counted 40 $share "$programs/messages" 1000 remote

# The program itself needs 15 of the 16 MiB that may be pinned.
requires setpriv "no setpriv: type: sh cmake/bootstrap.sh test"
user="prlimit --memlock=16777216 setpriv --reuid 65534 --regid 65534 --clear-groups"
lib=$GUEST_BUILD/lib
no_room=$GUEST_BUILD/tests/integration/verbs/libintegration_verbs_no_room.so
promise "what the program registers itself has the memlock limit that it has without us" \
  $user $verbs "$programs/messages" 100 own 15
promise "the memlock limit is enough for what the program registers itself" \
  $user "$programs/messages" 100 own 15
control "where nothing is given back, what the program registers itself lacks room" \
  "ibv_reg_mr of .* bytes of its own: Cannot allocate memory" \
  $user env LD_PRELOAD="$no_room:$lib/librdmalloc.so:$lib/librdmalloc-verbs.so" \
  "$programs/messages" 100 own 15
