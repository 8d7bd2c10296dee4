#!/usr/bin/env python3
"""sqlite3: inserts, joins, aggregates and an index, in memory and in a file."""

import hashlib

from side_by_side import check_books, check_same, run_both
from verdict import check, need, test_in_folder

SCRIPT = """
PRAGMA page_size = 4096; PRAGMA cache_size = -200000; PRAGMA temp_store = memory;
CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT, weight INTEGER);
CREATE TABLE sale (id INTEGER PRIMARY KEY, part INTEGER REFERENCES part, amount INTEGER, note BLOB);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO part SELECT i, printf('part %08d', i * 7919 % 1000003), i * 31 % 977 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
INSERT INTO sale SELECT i, 1 + i * 104729 % 20000, i * 17 % 1009, zeroblob(i % 97) FROM n;
COMMIT;
CREATE INDEX sale_part ON sale (part, amount);
SELECT count(*), sum(amount), sum(length(note)) FROM sale;
SELECT name, sum(amount * weight) AS total FROM sale JOIN part ON part.id = sale.part
  GROUP BY part ORDER BY total DESC, name LIMIT 20;
SELECT weight, count(*), group_concat(DISTINCT amount % 10) FROM sale JOIN part ON part.id = part
  GROUP BY weight HAVING count(*) > 350 ORDER BY weight LIMIT 20;
SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY amount % 100 ORDER BY id) AS r FROM sale);
SELECT length(group_concat(name, '/')) FROM (SELECT p.name FROM part p, part q WHERE q.id < 100);
DELETE FROM sale WHERE amount % 3 = 0;
UPDATE part SET name = name || ' ' || hex(zeroblob(2)) || weight WHERE id % 5 = 0;
VACUUM;
SELECT count(*), min(name), max(name) FROM part;
PRAGMA integrity_check;
"""


def prepare(folder):
    (folder / "script.sql").write_text(SCRIPT)


def sqlite(folder):
    command = [need("sqlite3"), "-batch", "-bail", "data.db", ".read script.sql"]
    plain, other = run_both(command, folder, prepare=prepare)
    check_same(plain, other)
    check(plain.status == 0 and plain.output.rstrip().endswith(b"ok"), "sqlite3 failed")
    one, two = (hashlib.sha256((run.folder / "data.db").read_bytes()).hexdigest()
                for run in (plain, other))
    check(one == two, f"the database files differ: {one} {two}")
    check_books(other, least_held=20 << 20)


test_in_folder(sqlite)
