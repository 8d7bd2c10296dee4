# Programs that know nothing of us, under `rdmalloc run --verbs`: they get right bytes, and what
# they register is answered without the driver. Numbers of registrations are the kernel's own.
. "$GUEST_SOURCE/tests/guest/common.sh"
counted="sh $GUEST_SOURCE/tests/guest/counted"
verbs="$rdmalloc run --verbs --"
share="$rdmalloc run --verbs --share-remote --"
export RDMALLOC_VERBS_STATS=on

# One memory region of the program's own: the peer's buffer, which is not malloc's.
promise "a thousand malloc'd messages are sent by a few registrations under the shim" 60 \
  $counted 40 $verbs "$programs/messages" 1000
promise "the library alone, without the shim, does no harm to who registers by himself" 60 \
  $counted 1001 $with "$programs/messages" 1000
control "a thousand messages are a thousand registrations" 60 \
  $counted 40 "$programs/messages" 1000
promise "what a peer may read is registered by itself unless sharing was asked for" 60 \
  $counted 1040 $verbs "$programs/messages" 1000 remote
control "without --share-remote remote rights are not shared" 60 \
  $counted 40 $verbs "$programs/messages" 1000 remote
promise "with --share-remote a few registrations serve the peer's reads, too" 60 \
  $counted 40 $share "$programs/messages" 1000 remote
