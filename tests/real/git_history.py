#!/usr/bin/env python3
"""git: many commits, merges, garbage collection, a full check, a clone."""

from side_by_side import check_books, check_same, run_both
from verdict import check, need, test_in_folder

SCRIPT = r"""
set -eu
git init -q -b main history
cd history
git config core.fsync none
git config gc.auto 0
i=0
{
  while [ $i -lt 1500 ]; do
    i=$((i + 1))
    text=$(printf 'line %d of the file, %d\n' $i $((i * 7919 % 10007)))
    printf 'commit refs/heads/main\nmark :%d\ncommitter T <t@example.org> %d +0000\n' $i \
      $((1700000000 + i * 60))
    printf 'data 7\nmessage\n'
    [ $i -eq 1 ] || printf 'from :%d\n' $((i - 1))
    printf 'M 100644 inline dir%d/file%d.txt\n' $((i % 20)) $((i % 300))
    printf 'data %d\n%s\n' ${#text} "$text"
  done
} | git fast-import --quiet
git reset -q --hard
for branch in one two three; do
  git checkout -q -b $branch main~100
  for n in 1 2 3 4 5; do
    seq $n 4000 > $branch.txt
    git add $branch.txt
    git commit -q -m "$branch $n"
  done
  git checkout -q main
  git merge -q --no-ff -m "merge $branch" $branch
done
git gc -q --aggressive --prune=now
git fsck --full --strict --no-progress
git log --stat --format=%H%n%an%n%s | sha256sum
git rev-list --objects --all | sort | sha256sum
git blame dir1/file1.txt | wc -l
git diff main~1000 main | sha256sum
git clone -q --no-local . ../copy
git -C ../copy rev-parse HEAD
git rev-parse HEAD
"""

WHO = {f"GIT_{role}_{field}": value
       for role in ("AUTHOR", "COMMITTER")
       for field, value in (("NAME", "T"), ("EMAIL", "t@example.org"),
                            ("DATE", "1800000000 +0000"))}


def git(folder):
    need("git")
    plain, other = run_both([need("dash"), "-c", SCRIPT], folder, environment={
        **WHO, "GIT_CONFIG_NOSYSTEM": "1"})
    check_same(plain, other)
    check(plain.status == 0, f"git failed: {plain.errors.decode()}")
    check_books(other, least_held=4 << 20)


test_in_folder(git)
