# Foreign memory over RDMA: mappings that appear, disappear and lose their pages, registered with
# rdm_get.
. "$GUEST_SOURCE/tests/guest/common.sh"

control "with a cache keyed by address mappings are sent wrong" \
  "the peer's differ" \
  "$programs/stale" foreign 3000
promise "mappings that come and go, sent by key, arrive byte for byte" \
  $with "$programs/stale" foreign 5000
promise "mappings arrive byte for byte with the interposed monitor" \
  env RDMALLOC_MONITOR=interposed $with "$programs/stale" foreign 5000
