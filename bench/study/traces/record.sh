#!/bin/sh
# Records the traces of this folder again: real programs at small tasks, each of which is here.
# usage: record.sh RDMALLOC OUTPUT_FOLDER
set -eu
rdmalloc=$(realpath "$1")
out=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

record() {
  "$rdmalloc" trace record "$@"
}

cat > words.cpp << 'END'
#include <iostream>
#include <map>
#include <string>
#include <vector>

int main() {
  std::map<std::string, std::vector<int>> lines;
  std::string word;
  for (int line = 1; std::cin >> word; ++line) lines[word].push_back(line);
  for (const auto& [key, value] : lines) std::cout << key << ' ' << value.size() << '\n';
}
END
record --process cc1plus -o "$out/cc1plus.rdtrace" -- g++ -std=c++17 -O2 -c words.cpp

# Each object from malloc, instead of from the interpreter's own arenas.
cat > records.py << 'END'
import json
records = [{"name": f"record {i}", "values": list(range(i % 17)), "note": "x" * (i % 251)}
           for i in range(9000)]
again = json.loads(json.dumps(records))
by_length = {}
for record in again:
    by_length.setdefault(len(record["note"]), []).append(record)
print(len(by_length), sum(len(part) for part in by_length.values()))
END
PYTHONMALLOC=malloc record -o "$out/python3.rdtrace" -- /usr/bin/python3 records.py

cat > hashes.pl << 'END'
my %seen;
for my $i (1 .. 60000) {
    my $word = join '-', map { chr(97 + ($i * $_) % 26) } 1 .. 3 + $i % 9;
    $seen{$word . $i % 501} .= "$i,";
}
my @most = sort { length $seen{$b} <=> length $seen{$a} || $a cmp $b } keys %seen;
print scalar(@most), " $most[0]\n";
END
record -o "$out/perl.rdtrace" -- perl hashes.pl

cat > orders.sql << 'END'
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
INSERT INTO orders SELECT i, i * 7919 % 997, printf('item %d of a list', i % 401), i % 89 FROM n;
CREATE INDEX by_customer ON orders(customer, item);
SELECT customer, count(*), sum(price) FROM orders GROUP BY customer ORDER BY 3 DESC LIMIT 5;
SELECT length(group_concat(id)) FROM orders GROUP BY item ORDER BY item LIMIT 3;
DELETE FROM orders WHERE id % 3 = 0;
VACUUM;
END
record -o "$out/sqlite3.rdtrace" -- sqlite3 -init orders.sql :memory: .quit

# Values of one size are written over by longer ones, and then most of them are deleted. Debian's
# redis-check-rdb is the server, if it is called so.
ln -s "$(command -v redis-check-rdb)" redis-server
record -o "$out/redis-server.rdtrace" -- ./redis-server --port 0 --unixsocket redis.sock \
  --save '' --appendonly no &
recorder=$!
ask() {
  redis-cli -s redis.sock "$@"
}
tries=0
until [ "$(ask PING 2> /dev/null)" = PONG ]; do
  tries=$((tries + 1))
  [ $tries -lt 200 ] || { echo "redis-server does not answer" >&2; exit 1; }
  sleep 0.05
done
load() {
  redis-benchmark -s redis.sock -c 8 -q "$@" > /dev/null
}
load -n 15000 -r 10000 -d 60 -t set
load -n 15000 -r 10000 -d 180 -t set
load -n 8000 -r 3000 -d 40 -t hset,zadd,lpush
load -n 8000 -r 10000 DEL key:__rand_int__
load -n 3000 -r 3000 -d 700 -t set
ask SHUTDOWN NOSAVE || true
wait $recorder

mkdir repository
git init -q repository
for i in $(seq 1 120); do
  for name in a b c d; do
    seq "$i" $((i * 13 % 2700 + i)) > "repository/$name$((i % 7)).txt"
  done
  git -C repository add -A
  git -C repository -c user.name=n -c user.email=n@example.org commit -q -m "change $i"
done
record --process git -o "$out/git.rdtrace" -- git -C repository -c pack.threads=2 repack -adfq

# On one process, which makes MPI's own allocations, too. Open MPI refuses root, unless told.
cat > in.melt << 'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 12 0 12 0 12
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
run 100
END
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 record --process lmp \
  -o "$out/lammps.rdtrace" -- lmp -in in.melt -log none -screen none
