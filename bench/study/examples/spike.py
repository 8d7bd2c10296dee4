"""A short peak, then a long life with little: all of the peak stays."""
import sys
import time

peak = [b"x" * (1 << 20) for _ in range(int(sys.argv[1]))]
total = sum(map(len, peak))
del peak
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    total += len("-".join(str(i) for i in range(1000)))
    time.sleep(0.005)
print(total > 0)
