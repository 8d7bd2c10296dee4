#include "allocator/os/thread.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>

#include "allocator/os/file.h"
#include "allocator/os/newer_headers.h"

namespace rdmalloc::os {
namespace {

constexpr const char* kOurNames = "rdmalloc-";

constinit Processors processors_of_ours;

// The process's main-thread key, and the watches that are told when that thread ends. Watches
// beyond this number poll.
constexpr size_t kMostWatches = 16;
constinit bool has_key = false;
constinit pthread_key_t key = 0;
constinit std::atomic<MainThreadWatch*> watches[kMostWatches] = {};

// If none of these processors is allowed, the thread stays where it is.
void place(pthread_t thread) {
  static_assert(sizeof(Processors) == sizeof(cpu_set_t));
  if (!processors_of_ours.has_any()) return;
  cpu_set_t set;
  memcpy(&set, &processors_of_ours, sizeof set);
  (void)pthread_setaffinity_np(thread, sizeof set, &set);
}

// Whether the main thread has ended; it stays a zombie until the process ends.
bool is_main_thread_over() {
  char stat[256];
  const ssize_t size = read_file("/proc/self/stat", stat, sizeof stat);
  if (size <= 0) return false;
  const void* end = memrchr(stat, ')', static_cast<size_t>(size));
  return end != nullptr && static_cast<const char*>(end) + 2 < stat + size &&
         static_cast<const char*>(end)[2] == 'Z';
}

bool is_ours(const char* task) {
  char path[64] = "/proc/self/task/";
  char name[16] = {};
  const size_t start = strlen(path);
  const size_t length = strlen(task);
  if (length > 20) return false;
  memcpy(path + start, task, length);
  memcpy(path + start + length, "/comm", sizeof "/comm");
  return read_file(path, name, sizeof name - 1) > 0 && text(name).starts_with(text(kOurNames));
}

int create(pthread_t* thread, size_t stack, void* (*run)(void*), void* context) {
  if (stack == 0) return pthread_create(thread, nullptr, run, context);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  const int error = pthread_create(thread, &attributes, run, context);
  pthread_attr_destroy(&attributes);
  return error == EINVAL ? create(thread, 0, run, context) : error;
}

}  // namespace

int start_thread(pthread_t* thread, const char* name, size_t stack, void* (*run)(void*),
                 void* context) {
  // The new thread inherits the mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = create(thread, stack, run, context);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) {
    (void)pthread_setname_np(*thread, name);
    place(*thread);
  }
  return error;
}

void place_threads(const Processors& processors) { processors_of_ours = processors; }

bool is_only_ours_left() {
  if (!is_main_thread_over()) return false;
  const int folder = open_file("/proc/self/task");
  if (folder < 0) return false;
  uint64_t main_task = static_cast<uint64_t>(getpid());
  bool only_ours = true;
  alignas(dirent64) char entries[2048];
  while (only_ours) {
    const long size = syscall(SYS_getdents64, folder, entries, sizeof entries);
    if (size <= 0) break;
    for (long at = 0; at < size && only_ours;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      uint64_t task = 0;
      Text rest;
      if (!parse_decimal(text(entry->d_name), &task, &rest) || task == main_task) continue;
      only_ours = is_ours(entry->d_name);
    }
  }
  close_file(folder);
  return only_ours;
}

constinit std::atomic<bool> MainThreadWatch::is_main_watched{false};

struct WatchFromTheStart {
  [[gnu::constructor]] static void run() { MainThreadWatch::watch_main_thread(); }
};

// Called by the main thread only. The key is kept, also for forked children.
void MainThreadWatch::watch_main_thread() {
  if (gettid() != getpid() || is_main_watched) return;
  has_key = has_key || pthread_key_create(&key, note_main_end) == 0;
  is_main_watched = has_key && pthread_setspecific(key, &watches) == 0;
}

// A watch that registers meanwhile is either seen here, or sees that nothing is watched.
void MainThreadWatch::note_main_end(void*) {
  is_main_watched = false;
  for (const std::atomic<MainThreadWatch*>& place : watches) {
    if (const MainThreadWatch* const watch = place.load()) watch->note_end_(watch->context_);
  }
}

void MainThreadWatch::start(void (*note_end)(void* context), void* context) {
  watch_main_thread();
  if (is_listed_) return;
  note_end_ = note_end;
  context_ = context;
  for (std::atomic<MainThreadWatch*>& place : watches) {
    MainThreadWatch* nobody = nullptr;
    if (!place.compare_exchange_strong(nobody, this)) continue;
    is_listed_ = true;
    return;
  }
}

void MainThreadWatch::stop() {
  is_listed_ = false;
  for (std::atomic<MainThreadWatch*>& place : watches) {
    MainThreadWatch* self = this;
    (void)place.compare_exchange_strong(self, nullptr);
  }
}

// The forking thread is the main thread now, and keeps its key's value.
void MainThreadWatch::note_fork_child() {
  stop();
  is_main_watched = has_key && pthread_getspecific(key) != nullptr;
}

}  // namespace rdmalloc::os
