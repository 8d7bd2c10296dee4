/* A program for the tests of the command: does what its words say, in order.
 *   say TEXT      prints it            exit N      exits so          kill N     sends itself N
 *   leave N       the same by _exit
 *   hold MIB      allocates and keeps  locked      prints VmLck in bytes
 *   pid           prints its id        chdir DIR   goes there         wait SECONDS
 *   fork          a child goes on in its place, and is waited for     spin SECONDS of its CPU
 *   closed        closes all descriptors from 3 on
 *   exec PROGRAM  with the words that follow */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void spin(int seconds) {
  while (clock() < (clock_t)seconds * CLOCKS_PER_SEC) continue;
}

/* Without streams, whose buffers would make the heap grow after this was read. */
static void print_locked(void) {
  char status[8192];
  const int file = open("/proc/self/status", O_RDONLY);
  const ssize_t length = file < 0 ? -1 : read(file, status, sizeof status - 1);
  if (length < 0) exit(3);
  close(file);
  status[length] = '\0';
  unsigned long kib = 0;
  const char* const field = strstr(status, "VmLck:");
  if (field == NULL || sscanf(field, "VmLck: %lu", &kib) != 1) exit(3);
  fflush(stdout);
  char line[32];
  const int digits = snprintf(line, sizeof line, "%lu\n", kib * 1024);
  if (write(STDOUT_FILENO, line, (size_t)digits) != digits) exit(3);
}

int main(int argc, char** argv) {
  void* held[16];
  int count = 0;
  for (int i = 1; i < argc; i++) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "locked") == 0) {
      print_locked();
      continue;
    }
    if (strcmp(argv[i], "pid") == 0) {
      printf("%d\n", (int)getpid());
      fflush(stdout);
      continue;
    }
    if (strcmp(argv[i], "fork") == 0) {
      const pid_t child = fork();
      if (child != 0) return child < 0 || waitpid(child, NULL, 0) != child ? 3 : 0;
      continue;
    }
    if (strcmp(argv[i], "closed") == 0) {
      for (int fd = 3; fd < 1024; fd++) close(fd);
      continue;
    }
    if (strcmp(argv[i], "exec") == 0) {
      execv(value, argv + i + 1);
      return 3;
    }
    i++;
    if (strcmp(argv[i - 1], "say") == 0) puts(value);
    if (strcmp(argv[i - 1], "wait") == 0) sleep((unsigned)atoi(value));
    if (strcmp(argv[i - 1], "spin") == 0) spin(atoi(value));
    if (strcmp(argv[i - 1], "exit") == 0) return atoi(value);
    if (strcmp(argv[i - 1], "leave") == 0) _exit(atoi(value));
    if (strcmp(argv[i - 1], "kill") == 0) raise(atoi(value));
    if (strcmp(argv[i - 1], "chdir") == 0 && chdir(value) != 0) return 3;
    if (strcmp(argv[i - 1], "hold") == 0 && count < 16) {
      const size_t bytes = (size_t)atoi(value) << 20;
      held[count] = malloc(bytes);
      if (held[count] == NULL) return 4;
      memset(held[count++], 1, bytes);
    }
  }
  return 0;
}
