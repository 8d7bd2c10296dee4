# Runs in the guest: every test that results/tests names, each in a shell of its own, and says at
# the end that none is left.
for test in $(cat "$GUEST_RESULTS/tests"); do
  echo "guest: $test"
  name=${test##*/}
  GUEST_TEST=$name sh "$GUEST_SOURCE/tests/guest/$test.sh" < /dev/null \
    > "$GUEST_RESULTS/$name.log" 2>&1
done
echo "all tests were run" > "$GUEST_RESULTS/finished"
