# Runs the test suite in the guest: the tests chosen by `run --ctest "..." suite`. The build folder
# lies under an in-memory overlay, so that tests can write there. Emulation is slow, so each test
# gets ten times its time limit. A machine of AArch64 runs its programs itself, without an emulator.
. "$GUEST_SOURCE/tests/guest/common.sh"
requires ctest "no ctest: type: sh cmake/bootstrap.sh test"
. "$GUEST_RESULTS/suite"  # arguments, user, memlock
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/layer/upper /run/layer/work
mount -t overlay -o "lowerdir=$GUEST_BUILD,upperdir=/run/layer/upper,workdir=/run/layer/work" \
  overlay "$GUEST_BUILD" || absent="the build folder cannot be written to"
find "$GUEST_BUILD" -name CTestTestfile.cmake -exec sed -i \
  -e 's|"[^"]*/qemu-aarch64[^" ]*" "-L" "[^"]*" ||g' \
  -e 's/TIMEOUT "\([0-9]*\)"/TIMEOUT "\10"/' \
  -e 's/\(judged.sh" "[^"]*" "[0-9]*\)"/\10"/' {} +
as_user=
if [ "$user" = yes ]; then
  as_user="setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all"
  find "$GUEST_BUILD" -type d ! -path '*/CMakeFiles*' -exec chmod a+rwx {} +
fi

# As in mpi.sh: without it UCX's datagrams time out over soft-RoCE.
export UCX_UD_VERBS_ETH_DGID_CHECK=n
seconds=86400
# shellcheck disable=SC2086  # lists of words
promise "the suite passes in the guest" \
  prlimit --memlock="$memlock:$memlock" $as_user ctest --test-dir "$GUEST_BUILD" -j "$(nproc)" \
  --no-tests=error --timeout 6000 --output-on-failure --output-log "$GUEST_RESULTS/ctest.log" $arguments
cp "$GUEST_BUILD/Testing/Temporary/LastTest.log" "$GUEST_RESULTS/"
