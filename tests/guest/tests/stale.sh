# Stale registrations: the peer receives what the program wrote, whatever lay at the address before.
. "$GUEST_SOURCE/tests/guest/common.sh"

control "with glibc and a cache that trusts addresses the peer gets the freed buffer's bytes" \
  "byte 0 is 'A' where 'B' was written" \
  "$programs/stale" classic
promise "a buffer at a freed one's address is sent, read and written as what it is" \
  $with "$programs/stale" classic
# glibc's default threshold, fixed: otherwise the first large free() makes it keep such memory.
control "with glibc random buffers of all sizes are sent wrong" \
  "the peer's differ" \
  env MALLOC_MMAP_THRESHOLD_=131072 "$programs/stale" rounds 3000
promise "random buffers of all sizes, sent by key, arrive byte for byte" \
  $with "$programs/stale" rounds 100000
