"""An interpreter at work: records read from JSON, grouped, written again, dropped, several times."""
import json
import sys


def records(count, seed):
    return [{"id": i, "name": f"item {i * seed % 7919}", "tags": [f"t{i % k}" for k in (3, 5, 7)],
             "text": "x" * (i * 37 % 900)} for i in range(count)]


total = 0
for turn in range(1, int(sys.argv[1]) + 1):
    text = json.dumps(records(6000 * (1 + turn % 4), turn))
    groups = {}
    for record in json.loads(text):
        groups.setdefault(record["name"], []).append(record)
    total += len(json.dumps(groups))
print(total)
