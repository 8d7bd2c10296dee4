# Runs in the guest: runs every test that results/tests names, each in its own shell, and records at
# the end that all have run.
for test in $(cat "$GUEST_RESULTS/tests"); do
  echo "guest: $test"
  name=${test##*/}
  GUEST_TEST=$name sh "$GUEST_SOURCE/tests/guest/$test.sh" < /dev/null \
    > "$GUEST_RESULTS/$name.log" 2>&1
done
echo "all tests were run" > "$GUEST_RESULTS/finished"
