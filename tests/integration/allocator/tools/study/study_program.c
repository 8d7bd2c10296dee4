/* A subject for `rdmalloc study`, with a command for each kind of behaviour. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCKS = 256 };

static void rest(double seconds) { usleep((useconds_t)(seconds * 1e6)); }

/* 256 MiB in blocks, held for a while; then all freed, for a while. */
static void hill(void) {
  static char* blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; ++i) {
    blocks[i] = malloc(MIB);
    if (blocks[i] == NULL) exit(9);
    memset(blocks[i], 1, MIB);
  }
  rest(0.3);
  for (int i = 0; i < BLOCKS; ++i) free(blocks[i]);
  rest(0.6);
}

/* Prints its own VmLck when nothing more is allocated. */
static void say_locked(void) {
  char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "VmLck:", 6) == 0) fputs(line, stdout);
  }
  fflush(stdout);
  rest(0.1);
}

/* Children of 20 MiB each, which stay for some seconds. */
static void tree(int children, double seconds) {
  for (int i = 0; i < children; ++i) {
    if (fork() == 0) {
      char* block = malloc(20 * MIB);
      memset(block, 1, 20 * MIB);
      rest(seconds);
      _exit(0);
    }
  }
  while (wait(NULL) > 0) {
  }
}

/* A grandchild in its own session that outlives the program. */
static void leave_daemon(double seconds) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      char* block = malloc(30 * MIB);
      memset(block, 1, 30 * MIB);
      printf("daemon %d\n", (int)getpid());
      fflush(stdout);
      rest(seconds);
      _exit(0);
    }
    _exit(0);
  }
  wait(NULL);
  rest(0.1);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* value = argc > 2 ? argv[2] : "0";
  if (strcmp(what, "hill") == 0) hill();
  if (strcmp(what, "locked") == 0) hill(), say_locked();
  if (strcmp(what, "tree") == 0) tree(atoi(value), atof(argc > 3 ? argv[3] : "0"));
  if (strcmp(what, "daemon") == 0) leave_daemon(atof(value));
  if (strcmp(what, "rest") == 0) rest(atof(value));
  if (strcmp(what, "exit") == 0) return atoi(value);
  if (strcmp(what, "crash") == 0) abort();
  if (strcmp(what, "exec") == 0) {
    rest(0.1);
    execl(argv[0], argv[0], "hill", (char*)NULL);
  }
  if (strcmp(what, "echo") == 0) {
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) fputs(line, stdout);
    fputs("to stderr\n", stderr);
  }
  return 0;
}
