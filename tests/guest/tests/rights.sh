# What a peer may do with a key.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "a peer reaches exposed memory by its key, and neither the heap nor what lies beyond" \
  $with "$programs/rights"
control "a peer reaches the heap when it is shared by name" \
  "the heap by its own key: the peer's bytes are there" $with "$programs/rights" share
