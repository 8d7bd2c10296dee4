#!/usr/bin/env python3
"""redis: the same keys before BGSAVE under load, after DEBUG RELOAD, after a restart, and without
rdmalloc; its allocator's own commands work."""

import pathlib
import subprocess
import time

from side_by_side import Run, check_books
from verdict import check, fail, need, test_in_folder

SERVER_OPTIONS = ["--port", "0", "--unixsocket", "socket", "--dir", ".", "--save", "",
                  "--appendonly", "no", "--daemonize", "no", "--enable-debug-command", "local",
                  "--dbfilename", "dump.rdb", "--loglevel", "warning"]
# The same binary as redis-server, which acts by its name; the package of this name starts no
# service.
BINARY = need("redis-check-rdb")
FILL = r"""
for i = 1, 20000 do
  redis.call('HSET', 'hash:' .. i % 2000, 'field' .. i, string.rep('v', i % 300))
  redis.call('ZADD', 'sorted:' .. i % 50, i * 7919 % 10007, 'member' .. i)
  redis.call('RPUSH', 'list:' .. i % 100, 'element' .. i)
  redis.call('SADD', 'set:' .. i % 300, i, 'text' .. i)
  if i % 200 == 0 then redis.call('SET', 'large:' .. i, string.rep('x', i * 20)) end
end
return redis.call('DBSIZE')
"""


class Server:
    def __init__(self, folder, rdmalloc):
        folder = pathlib.Path(folder)
        name = folder / "redis-server"
        if not name.is_symlink():
            name.symlink_to(BINARY)
        self.run = Run([name, *SERVER_OPTIONS], folder, rdmalloc=rdmalloc, seconds=250)
        self.socket = str(folder / "socket")
        check(len(self.socket) < 108, f"too long for a socket: {self.socket}")
        deadline = time.monotonic() + 30
        while self.ask("PING", allow_failure=True) != "PONG":
            check(time.monotonic() < deadline and self.run.process.poll() is None,
                  f"redis-server does not answer: {(folder / 'stderr').read_text()}")
            time.sleep(0.05)

    def ask(self, *words, allow_failure=False):
        done = subprocess.run([need("redis-cli"), "-s", self.socket, *words], timeout=60,
                              capture_output=True, text=True, check=False)
        answer = done.stdout.strip()
        bad = done.returncode != 0 or answer.startswith(("ERR", "Error", "MISCONF"))
        check(allow_failure or not bad, f"redis: {words}: {answer}{done.stderr}")
        return answer

    def info(self, section):
        lines = self.ask("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def save_in_background_under_load(self):
        """A benchmark rewrites its own keys, in another database, while the child saves."""
        load = subprocess.Popen(
            [need("redis-benchmark"), "-s", self.socket, "-q", "-n", "20000", "-c", "20", "-d",
             "512", "-r", "5000", "--dbnum", "1", "-t", "set,get,lpush,lpop,sadd,hset,lrange_100"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            for _ in range(3):
                self.ask("BGSAVE")
                self.wait_for_save()
            _, errors = load.communicate(timeout=100)
            check(load.returncode == 0, f"redis-benchmark failed: {errors.decode()}")
        finally:
            load.kill()
            load.wait()

    def wait_for_save(self):
        deadline = time.monotonic() + 60
        while self.info("persistence")["rdb_bgsave_in_progress"] != "0":
            check(time.monotonic() < deadline, "BGSAVE does not end")
            time.sleep(0.02)
        check(self.info("persistence")["rdb_last_bgsave_status"] == "ok", "BGSAVE failed")

    def stop(self):
        self.ask("SHUTDOWN", "NOSAVE", allow_failure=True)
        run = self.run.wait()
        check(run.status == 0, f"redis-server ended with {run.status}: {run.errors.decode()}")
        return run


def locked_now(server):
    pid = server.info("server")["process_id"]
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmLck"))
    return int(line.split()[1]) << 10


def exercise(folder, rdmalloc):
    """The digest of all keys, which must be the same at each step, and the server's exit."""
    folder.mkdir()
    server = Server(folder, rdmalloc)
    try:
        keys = server.ask("EVAL", FILL, "0")
        digest = server.ask("DEBUG", "DIGEST")
        server.save_in_background_under_load()
        server.ask("-n", "1", "FLUSHDB", "ASYNC")
        check(server.ask("DEBUG", "DIGEST") == digest, "the keys changed while redis saved")
        server.ask("DEBUG", "RELOAD")
        check(server.ask("DEBUG", "DIGEST") == digest, "the keys changed over DEBUG RELOAD")
        server.ask("MEMORY", "PURGE")
        server.ask("MEMORY", "MALLOC-STATS")
        server.ask("BGSAVE")
        server.wait_for_save()
        allocator = server.info("memory")["mem_allocator"]
        locked = locked_now(server)
        run = server.stop()
        print(f"  {'with' if rdmalloc else 'without'}: {keys} keys, allocator {allocator}, "
              f"digest {digest[:12]}", flush=True)
    finally:
        server.run.kill()
    return digest, locked, run


def restart(folder, digest, rdmalloc):
    """Starts a new server on the file that BGSAVE wrote."""
    for name in ("reports", "stdout", "stderr", "notes"):
        (folder / name).rename(folder / f"first-{name}")
    server = Server(folder, rdmalloc)
    try:
        check(server.ask("DEBUG", "DIGEST") == digest, "the keys changed over BGSAVE and a restart")
        run = server.stop()
    finally:
        server.run.kill()
    if rdmalloc:
        check_books(run)


def redis(folder):
    need("redis-cli", "redis-benchmark")
    digest, _, _ = exercise(folder / "without", False)
    with_digest, locked, run = exercise(folder / "with", True)
    if digest != with_digest:
        fail(f"other keys than without: {digest} {with_digest}")
    check_books(run, least_held=16 << 20)
    pinned = max(report["pinned_bytes"] for report in run.report.values())
    check(0 < locked <= pinned, f"VmLck was {locked} before the end, the report says {pinned}")
    restart(folder / "with", digest, True)
    # Each must also read what the other wrote.
    (folder / "without" / "dump.rdb").write_bytes((folder / "with" / "dump.rdb").read_bytes())
    restart(folder / "without", digest, False)


test_in_folder(redis)
