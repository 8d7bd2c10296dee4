# Many threads at once.
. "$GUEST_SOURCE/tests/guest/common.sh"

promise "threads grow the heap, send by key, and open and close domains meanwhile" \
  $with "$programs/traffic" 3 2000
