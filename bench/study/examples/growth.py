"""Blocks that grow together, step by step. None has room behind it, so realloc moves pages, or copies
them and holds the old block and the new one."""
import sys

blocks = [bytearray() for _ in range(8)]
step = bytes(1 << 18)
while sum(map(len, blocks)) < int(sys.argv[1]) << 20:
    for block in blocks:
        block += step
print(sum(map(len, blocks)))
