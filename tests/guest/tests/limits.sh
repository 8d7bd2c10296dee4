# RLIMIT_MEMLOCK, for an ordinary user.
. "$GUEST_SOURCE/tests/guest/common.sh"
requires setpriv "no setpriv: type: sh cmake/bootstrap.sh test"
user="setpriv --reuid 65534 --regid 65534 --clear-groups"

promise "malloc goes on when the memlock limit is reached, and lookups tell what has a key" \
  prlimit --memlock=4194304 $user $with "$programs/limits" 16
control "below the memlock limit everything has a key" \
  "everything has a key: the limit was not reached" \
  prlimit --memlock=268435456 $user $with "$programs/limits" 16
