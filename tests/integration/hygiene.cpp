// What an allocator must leave alone.
//
//   hygiene libc     libc's code in memory equals its file
//   hygiene patched  the same after this program has changed it, as patching libraries do
//   hygiene vmas     kernel mappings grow with regions, not with buffers
//   hygiene foreign  memory from another malloc may be passed to free and realloc
//   hygiene exit     holding much memory does not slow down exit
//   hygiene late FILE  dlopen of the library succeeds only if it has been there from the start
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <vector>

#include "tests/integration/probe.h"

extern "C" void* __libc_malloc(size_t);
extern "C" void* __libc_calloc(size_t, size_t);

namespace {

probe::Verdict verdict;

int compare_code(dl_phdr_info* object, size_t, void* checked) {
  if (strstr(object->dlpi_name, "libc.so.6") == nullptr) return 0;
  const int fd = open(object->dlpi_name, O_RDONLY | O_CLOEXEC);
  struct stat about = {};
  if (fd < 0 || fstat(fd, &about) != 0) probe::skip("cannot read libc");
  const auto length = static_cast<size_t>(about.st_size);
  void* mapped = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) probe::skip("cannot map libc");
  const char* file = static_cast<const char*>(mapped);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const auto* memory = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
    if (memcmp(memory, file + part.p_offset, part.p_filesz) != 0) verdict.broken("code differs");
    *static_cast<size_t*>(checked) += part.p_filesz;
  }
  return 1;
}

void check_libc() {
  free(malloc(100));
  size_t checked = 0;
  dl_iterate_phdr(compare_code, &checked);
  if (checked == 0) verdict.broken("no code of libc found");
}

// Changes the first byte of a function that nobody calls.
void patch_libc() {
  auto* code = reinterpret_cast<unsigned char*>(dlsym(RTLD_DEFAULT, "l64a"));
  auto* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(code) & ~(probe::kPage - 1));
  if (mprotect(page, probe::kPage, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    probe::skip("code cannot be made writable here");
  }
  *code = static_cast<unsigned char>(~*code);
}

size_t mappings() {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  static char block[1 << 16];
  size_t lines = 0;
  for (ssize_t got = 0; (got = read(fd, block, sizeof block)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) lines += block[i] == '\n';
  }
  close(fd);
  return lines;
}

// Buffers that a stock malloc maps individually, and a million small ones.
void check_mappings() {
  static void* large[4000];
  static void* small[1000000];
  const size_t before = mappings();
  for (void*& buffer : large) buffer = malloc(140000);
  for (void*& buffer : small) buffer = malloc(64);
  for (size_t i = 0; i < 1000000; i += 3) free(small[i]);
  for (size_t i = 0; i < 4000; i += 2) {
    free(large[i]);
    // Neighbouring mappings of stock malloc merge in the kernel; different access rights keep them
    // apart.
    large[i] = nullptr;
  }
  const size_t after = mappings();
  printf("%zu mappings, then %zu\n", before, after);
  const rdm_stats stats = probe::stats();
  if (after > before + 2 * stats.regions + 40) verdict.broken("%zu new mappings", after - before);
}

void check_foreign() {
  if (!probe::library().loaded()) probe::skip("nothing is foreign to libc's own malloc");
  char* block = static_cast<char*>(__libc_malloc(1000));
  if (probe::library().owns(block) != 0) verdict.broken("__libc_malloc gave window memory");
  if (malloc_usable_size(block) < 1000) verdict.broken("usable size of a foreign block");
  memset(block, 7, 1000);
  block = static_cast<char*>(realloc(block, 5000));
  if (probe::library().owns(block) != 1) verdict.broken("realloc left a block outside");
  for (int i = 0; i < 1000; ++i) {
    if (block[i] != 7) verdict.broken("realloc of a foreign block lost its contents");
  }
  free(block);
  for (const size_t size : {size_t{1}, size_t{100}, size_t{100000}, size_t{10000000}}) {
    free(__libc_malloc(size));
    free(realloc(__libc_calloc(1, size), size / 2 + 1));
    free(reallocarray(__libc_malloc(size), size, 2));
  }
}

double exit_seconds(size_t mib) {
  int ends[2];
  if (pipe(ends) != 0) probe::skip("no pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    // A separate program: a forked child's memory is not pinned.
    char size[24];
    snprintf(size, sizeof size, "%zu", mib);
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "hygiene", "hold", size, nullptr);
    _exit(127);
  }
  close(ends[1]);
  uint64_t start = 0;
  if (read(ends[0], &start, sizeof start) != sizeof start) verdict.broken("the child said nothing");
  const probe::ChildEnd child = probe::end_of(pid);
  const uint64_t end = probe::now_ns();
  close(ends[0]);
  verdict.expect_good_end("the child", child);
  return static_cast<double>(end - start) / 1e9;
}

// The kernel takes time to free pages, whoever held them: about 0.1 s per GiB.
void check_exit() {
  const double little = exit_seconds(1);
  const double much = exit_seconds(1024);
  printf("exit: %.3f s holding 1 MiB, %.3f s holding 1 GiB\n", little, much);
  if (much > little + 1.0) verdict.broken("exit takes long");
}

void check_late(const char* library) {
  if (dlopen(library, RTLD_NOW) == nullptr) verdict.broken("%s", dlerror());
}

int hold(size_t mib) {
  void* block = malloc(mib << 20);
  if (block == nullptr) return 1;
  memset(block, 1, mib << 20);
  const uint64_t now = probe::now_ns();
  (void)!write(STDOUT_FILENO, &now, sizeof now);
  exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "hold") == 0) return hold(probe::argument(argc, argv, 2, 1));
  if (strcmp(what, "libc") == 0) check_libc();
  if (strcmp(what, "patched") == 0) {
    patch_libc();
    check_libc();
  }
  if (strcmp(what, "vmas") == 0) check_mappings();
  if (strcmp(what, "foreign") == 0) check_foreign();
  if (strcmp(what, "exit") == 0) check_exit();
  if (strcmp(what, "late") == 0 && argc > 2) check_late(argv[2]);
  return verdict.status();
}
