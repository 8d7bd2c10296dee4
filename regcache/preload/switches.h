// What the shims read from the environment, and how they print messages. librdmalloc has the table
// of all options and warns of malformed ones; a shim sees only its public interface.
#pragma once

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstddef>
#include <initializer_list>

namespace rdmalloc::shim {

// Sets *value to what an environment variable says; a malformed one, or none, leaves it alone.
inline void read_switch(const char* variable, bool* value) {
  const char* text = getenv(variable);
  if (text == nullptr) return;
  for (const char* word : {"on", "1", "yes", "true"}) {
    if (strcmp(text, word) == 0) *value = true;
  }
  for (const char* word : {"off", "0", "no", "false"}) {
    if (strcmp(text, word) == 0) *value = false;
  }
}

// Prints to standard error by write(): the program may have closed stdio, or be inside it.
inline void say(const char* line, size_t length) {
  if (write(STDERR_FILENO, line, length) < 0) return;
}

// The same for what snprintf() wrote into `line`, which has `size` bytes. A sentence that did not
// fit still ends its line.
inline void say_sentence(char* line, size_t length, size_t size) {
  if (length >= size) {
    length = size - 1;
    line[length - 1] = '\n';
  }
  say(line, length);
}

}  // namespace rdmalloc::shim
