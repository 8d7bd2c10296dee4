// A domain on a driver and its process: library threads do not outlive the program's last one, a
// cancelled thread leaves no lock behind, and malloc preserves errno whatever a backend does.
//   domain_manners last_thread|last_thread_of_another|cancelled|errno|bound|unbound
//                                                    linked to the library
//   domain_manners other_thread                      the control of last_thread
//   domain_manners ring_open|ring_closed             main ends while our own ring is open
//   domain_manners namespace [driver|ring]           unshare, with such a domain or without
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <rdmalloc/backend.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <optional>

#include "tests/integration/probe.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

probe::Verdict verdict;
std::atomic<int> calls{0};
std::atomic<bool> refuses{false};

unsigned plain = 0;
unsigned in_malloc = RDM_BACKEND_IN_MALLOC;

// The context is the abilities.
rdm_backend driver() {
  rdm_backend backend{};
  backend.size = sizeof backend;
  backend.name = "driver";
  backend.limits = [](void* abilities, rdm_backend_limits* out) {
    out->abilities = *static_cast<unsigned*>(abilities);
    return int(RDM_OK);
  };
  backend.register_memory = [](void*, const rdm_backend_request*, rdm_backend_key*, char*, size_t) {
    ++calls;
    errno = EEXIST;
    usleep(100);  // a cancellation point
    return refuses ? int(RDM_SYSTEM) : int(RDM_OK);
  };
  backend.deregister_memory = [](void*, const rdm_backend_key*) {
    usleep(10);
    return int(RDM_OK);
  };
  return backend;
}

rdm_domain* open_driver(unsigned* abilities) {
  const rdm_backend backend = driver();
  rdm_domain* domain = nullptr;
  const int status = rdm_domain_open(&backend, abilities, nullptr, &domain);
  if (status != RDM_OK) verdict.broken("opening a domain: status %d", status);
  return domain;
}

void open_in_another_thread() {
  pthread_t other;
  const auto open = [](void*) -> void* { return open_driver(&plain); };
  pthread_create(&other, nullptr, open, nullptr);
  pthread_join(other, nullptr);
}

// The affinity of the library's registrar thread; none without the library.
cpu_set_t processors_of_registrar() {
  cpu_set_t set;
  CPU_ZERO(&set);
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    char path[300];
    char name[32] = {};
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE* const file = fopen(path, "r");
    if (file == nullptr) continue;
    const bool has_name = fgets(name, sizeof name, file) != nullptr;
    fclose(file);
    if (has_name && strcmp(name, "rdmalloc-reg\n") == 0)
      sched_getaffinity(atoi(task->d_name), sizeof set, &set);
  }
  closedir(tasks);
  return set;
}

// A rank bound to the first of its processors; `wide`: the registrar must have all of them.
void check_processors(bool wide) {
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) probe::skip("this process has one processor");
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(first, &own);
  sched_setaffinity(0, sizeof own, &own);
  rdm_domain* const domain = open_driver(&plain);
  const cpu_set_t its = processors_of_registrar();
  if (!CPU_EQUAL(&its, wide ? &all : &own)) {
    verdict.broken("the registrar may run on %d processors", CPU_COUNT(&its));
  }
  cpu_set_t now;
  sched_getaffinity(0, sizeof now, &now);
  if (!CPU_EQUAL(&now, &own)) verdict.broken("the program's own thread was moved");
  (void)rdm_domain_close(domain);
}

enum class Last { kDomain, kDomainOfAnother, kOther, kRing, kClosedRing };

rdm_domain* open_own_ring() {
  probe::DomainOptions options;
  rdm_domain* domain = nullptr;
  probe::need_domain(rdm_domain_open_io_uring(-1, &options, &domain), options.why);
  return domain;
}

// Does not return: main ends, and the process with it.
[[noreturn]] void end_last_thread(Last last) {
  alarm(last == Last::kOther ? 2 : 10);  // If something keeps running, SIGALRM ends it.
  if (last == Last::kDomain) {
    (void)open_driver(&plain);
  } else if (last == Last::kDomainOfAnother) {
    open_in_another_thread();
  } else if (last == Last::kRing) {
    (void)open_own_ring();
  } else if (last == Last::kClosedRing) {
    (void)rdm_domain_close(open_own_ring());
  } else {
    pthread_t other;
    pthread_create(
        &other, nullptr, [](void*) -> void* { return sleep(60), nullptr; }, nullptr);
  }
  pthread_exit(nullptr);
}

// A child whose main ends by pthread_exit has no thread of its own left.
void check_end(Last last) {
  const pid_t child = fork();
  if (child == 0) end_last_thread(last);
  const std::optional<probe::ChildEnd> end =
      probe::end_within(child, last == Last::kRing ? 1000 : 3000);
  if (!end) {
    probe::kill_child(child);
    return verdict.broken("it lives on");
  }
  if (end->status() == probe::kSkipped) probe::skip("no io_uring");
  verdict.expect_good_end("it", *end);
}

// A process with several threads cannot enter a new user namespace.
void check_namespace(const char* kind) {
  if (strcmp(kind, "driver") == 0) (void)open_driver(&plain);
  if (strcmp(kind, "ring") == 0) (void)open_own_ring();
  if (unshare(CLONE_NEWUSER) == 0) return;
  if (errno != EINVAL) probe::skip("no user namespaces here");
  verdict.broken("unshare: %s", strerror(errno));
}

void check_cancelled() {
  alarm(30);
  for (int i = 0; i < 20; ++i) {
    pthread_t thread;
    const auto work = [](void*) -> void* {
      int before = 0;
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
      pthread_cancel(pthread_self());
      void* block = malloc(size_t{4} << 20);
      pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
      rdm_domain* domain = open_driver(&plain);
      rdm_mr mr{};
      (void)rdm_lookup(domain, block, 1, &mr);
      (void)rdm_domain_close(domain);
      pthread_testcancel();
      return nullptr;
    };
    pthread_create(&thread, nullptr, work, nullptr);
    pthread_join(thread, nullptr);
    rdm_domain* domain = open_driver(&plain);
    if (rdm_domain_close(domain) != RDM_OK) verdict.broken("closing after thread %d", i);
  }
}

// Whoever shares a limit with this process leaves a record, which tells of a process that is gone.
void leave_record() {
  const pid_t child = probe::start_child([] { return malloc(size_t{32} << 20) != nullptr; });
  verdict.expect_good_end("another process that mallocs", probe::end_of(child));
}

void check_errno() {
  leave_record();
  rdm_domain* domain = open_driver(&in_malloc);
  for (const bool refusing : {false, true}) {
    refuses = refusing;
    const int before = calls;
    for (int i = 0; i < 100; ++i) {
      errno = 0;
      if (malloc(size_t{1} << 20) == nullptr) verdict.broken("malloc failed");
      if (errno != 0) verdict.broken("malloc left errno %d", errno);
    }
    if (calls == before) verdict.broken("no region was acquired: this showed nothing");
  }
  (void)rdm_domain_close(domain);
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "last_thread") == 0) end_last_thread(Last::kDomain);
  if (strcmp(what, "last_thread_of_another") == 0) end_last_thread(Last::kDomainOfAnother);
  if (strcmp(what, "other_thread") == 0) end_last_thread(Last::kOther);
  if (strcmp(what, "ring_open") == 0) check_end(Last::kRing);
  if (strcmp(what, "ring_closed") == 0) check_end(Last::kClosedRing);
  if (strcmp(what, "namespace") == 0) check_namespace(argc > 2 ? argv[2] : "");
  if (strcmp(what, "cancelled") == 0) check_cancelled();
  if (strcmp(what, "errno") == 0) check_errno();
  if (strcmp(what, "bound") == 0) check_processors(false);
  if (strcmp(what, "unbound") == 0) check_processors(true);
  return verdict.status();
}
