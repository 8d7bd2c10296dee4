// fork of a process that has much memory, in the ways of a domain.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

// The kernel's MemAvailable.
uint64_t available_kib() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib;
  }
  return 0;
}

uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000U + static_cast<uint64_t>(time.tv_nsec);
}

void look_up_all(rdm_domain* domain, char* next, const char* end) {
  while (domain != nullptr && next < end) {
    rdm_mr mr{};
    if (library().lookup(domain, next, 1, &mr) != RDM_OK) fail("rdm_lookup", "no key");
    next = static_cast<char*>(mr.base) + mr.length;
  }
}

}  // namespace

// kind: none, kept or released. The child lives until the parent has measured, and writes nothing.
void run_fork(const Arguments& arguments, Meter& meter) {
  const std::string way = arguments.kind;
  rdm_domain* domain = nullptr;
  if (way != "none") {
    domain = library().open_io_uring(-1, way == "released" ? RDM_DOMAIN_RELEASE_AT_FORK : 0);
  }
  auto* block = static_cast<char*>(malloc(arguments.bytes));
  if (block == nullptr) fail("malloc", "no memory");
  memset(block, 1, arguments.bytes);
  look_up_all(domain, block, block + arguments.bytes);
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) fail("pipe", strerror(errno));
  const uint64_t before = available_kib();
  const uint64_t start = now_ns();
  meter.start();
  const pid_t child = fork();
  const uint64_t forked = now_ns();
  if (child < 0) fail("fork", strerror(errno));
  if (child == 0) {
    char byte = 0;
    close(pipe_ends[1]);
    (void)!read(pipe_ends[0], &byte, 1);
    _exit(0);
  }
  meter.stop();
  const uint64_t after = available_kib();
  const uint64_t again = now_ns();
  look_up_all(domain, block, block + arguments.bytes);
  report("fork_ns", forked - start);
  report("again_ns", now_ns() - again);
  report("more_kib", before > after ? before - after : 0);
  close(pipe_ends[1]);
  waitpid(child, nullptr, 0);
}

}  // namespace rdmalloc::bench
