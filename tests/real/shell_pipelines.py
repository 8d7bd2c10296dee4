#!/usr/bin/env python3
"""bash: pipelines, subshells, background jobs and traps, over a dozen programs."""

from side_by_side import check_books, check_same, run_both
from verdict import check, need, test_in_folder

SCRIPT = r"""
set -euo pipefail
seq 1 200000 | awk '{ print ($1 * 7919) % 100003, $1 }' > numbers
sort -n -S 32M --parallel=2 numbers | sha256sum
sort -k2,2nr numbers | head -n 3 || true
cut -d' ' -f1 numbers | sort | uniq -c | sort -k1,1nr -k2,2n | head -n 5 || true
awk '{ bin[$1 % 10]++ } END { for (i = 0; i < 10; i++) print i, bin[i] }' numbers
grep -E '^(1|22|333)[0-9]*7 ' numbers | sed 's/\([0-9]*\) \([0-9]*\)/\2-\1/' | tr 0-9 a-j | md5sum
gzip -n < numbers | tee packed.gz | gzip -dc | cmp - numbers
xargs -n 500 -P 2 echo < numbers | wc -w
tar --sort=name --owner=0 --group=0 --mtime=@0 -cf - numbers | tar -tvf - | wc -l
find / -maxdepth 1 -name etc -print0 | xargs -0 ls -d
diff <(seq 1 2000) <(seq 1 2000 | sed '1000d') || true
total=0
declare -A seen
while read -r value rest; do
  seen[$((value % 997))]=$rest
  total=$((total + value))
done < <(head -n 20000 numbers)
echo "$total ${#seen[@]}"
text=$(printf 'word%d ' $(seq 1 20000))
echo "${#text} ${text//word1/W}" | md5sum
for i in 1 2 3 4; do
  (trap 'echo "job '$i' ends" > out'$i EXIT; seq 1 $((i * 10000)) | tail -n 1 > tail$i) &
done
wait
cat out? tail?
for i in $(seq 1 100); do (exit $((i % 3))) || echo -n $?; done; echo
coproc UP { tr a-z A-Z; }
echo spoken >&"${UP[1]}"
exec {UP[1]}>&-
cat <&"${UP[0]}"
timeout 0.3 sleep 10 || echo "status $?"
bash -c 'kill -TERM $$' || echo "status $?"
mapfile -t lines < numbers
echo "${#lines[@]} ${lines[-1]}"
"""


def pipelines(folder):
    plain, other = run_both([need("bash"), "-c", SCRIPT], folder)
    check_same(plain, other)
    check(plain.status == 0, f"bash failed: {plain.errors.decode()}")
    check_books(other, least_held=16 << 20)


test_in_folder(pipelines)
