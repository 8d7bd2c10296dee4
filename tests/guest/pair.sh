#!/bin/sh
# Runs a program of perftest as its own server and client.
#
#   pair.sh REGEX COMMAND...    COMMAND as typed, without the server's name
#
# Exit status: 0 both succeeded and printed a line that matches, 1 no such line, 3 one of them
# failed.
set -u
said=$1
shift
"$@" > /tmp/server.log 2>&1 < /dev/null &
server=$!
# The client is refused until the server listens.
status=1
for _ in 1 2 3 4 5 6 7 8 9 10; do
  sleep 0.5
  "$@" localhost > /tmp/client.log 2>&1 < /dev/null
  status=$?
  grep -q "Couldn't connect" /tmp/client.log || break
done
[ $status -eq 0 ] || kill $server 2> /dev/null
wait $server
server_status=$?
cat /tmp/server.log /tmp/client.log
[ $status -eq 0 ] || { echo "the client ended with $status"; exit 3; }
[ $server_status -eq 0 ] || { echo "the server ended with $server_status"; exit 3; }
grep -q "$said" /tmp/server.log && grep -q "$said" /tmp/client.log && exit
echo "one of them has no line that matches '$said'"
exit 1
