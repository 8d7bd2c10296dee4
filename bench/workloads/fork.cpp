// fork in a process that has much memory, with the different kinds of domain.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "bench/support/has_memory.h"
#include "bench/workloads/library.h"
#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

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
  const size_t before = available_memory();
  meter.start();
  const pid_t child = fork();
  if (child < 0) fail("fork", strerror(errno));
  if (child == 0) {
    char byte = 0;
    close(pipe_ends[1]);
    (void)!read(pipe_ends[0], &byte, 1);
    _exit(0);
  }
  meter.stop();
  const size_t after = available_memory();
  Meter again;
  again.start();
  look_up_all(domain, block, block + arguments.bytes);
  again.stop();
  report("again_ns", again.wall_ns());
  report("more_bytes", before > after ? before - after : 0);
  close(pipe_ends[1]);
  waitpid(child, nullptr, 0);
}

}  // namespace rdmalloc::bench
