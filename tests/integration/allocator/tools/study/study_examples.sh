#!/bin/sh
# Runs the short form of the study examples: each leaves its report and a row of figures. 77 if the
# program to be studied is not installed.
# usage: RDMALLOC_STUDY=rdmalloc study_examples.sh PYTHON RUN.PY NAME...
python=$1 script=$2
shift 2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
"$python" -B "$script" "$RDMALLOC_STUDY" "$folder" --short "$@" > "$folder/table"
status=$?
[ "$status" -eq 0 ] || { echo "run.py ended with $status"; exit "$status"; }
cat "$folder/table"
# Two header lines, and a row for each example.
[ "$(wc -l < "$folder/table")" -eq $(($# + 2)) ] || { echo "FAILED: a row is missing"; exit 1; }
for name in "$@"; do
  for file in report.html study.json samples.csv; do
    [ -s "$folder/$name/$file" ] || { echo "FAILED: $name has no $file"; exit 1; }
  done
done
