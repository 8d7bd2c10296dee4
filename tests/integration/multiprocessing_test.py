"""Forked workers that all allocate, send back large objects, and fork again."""
import multiprocessing
import subprocess


def work(number):
    data = [bytes([number % 256]) * (size * 1000) for size in range(1, 60)]
    subprocess.run(["true"], check=True)
    return number, sum(len(d) for d in data), data[number % 59]


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(4) as pool:
        for number, total, sample in pool.imap_unordered(work, range(64)):
            assert total == 1770000, total
            assert sample == bytes([number]) * ((number % 59 + 1) * 1000)
    print("64 tasks done")
