/* Shows what qemu-user 7.2 does wrong with pages that are larger than the host's, without the
 * library:
 *
 *   aarch64-linux-gnu-gcc --sysroot=build/arm64-sysroot tests/arm64/qemu_pages.c -o /tmp/pages
 *   qemu-aarch64-static -p 65536 -L build/arm64-sysroot [-cpu cortex-a72] /tmp/pages
 *
 * mincore() fills a byte for each of the host's pages, beyond the caller's array. Vector
 * instructions (SVE, which -cpu cortex-a72 lacks) that store into the rest of a page, behind the
 * part that was asked for, are a fault: the program ends by SIGSEGV. A dynamic linker has its first
 * memory there. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPages = 4, kUnwritten = 0xee };

int main(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* at = mmap(NULL, kPages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char there[1024];
  memset(there, kUnwritten, sizeof there);
  size_t filled = 0;
  if (at == MAP_FAILED || mincore(at, kPages * page, there) != 0) perror("mmap or mincore");
  while (filled < sizeof there && there[filled] != kUnwritten) ++filled;
  printf("pages of %zu bytes: for %d of them mincore filled %zu bytes\n", page, kPages, filled);

  char* byte = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (byte == MAP_FAILED) perror("mmap");
  puts("storing into the rest of a page");
  fflush(stdout);
  byte[page - 1] = 1;
  puts("one byte is stored");
  fflush(stdout);
  volatile size_t size = 32;
  memcpy(byte + page - size, there, size);
  puts("a vector is stored");
  return filled == kPages ? 0 : 1;
}
