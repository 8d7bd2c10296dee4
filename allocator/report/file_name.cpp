#include "allocator/report/file_name.h"

#include <string.h>

#include "allocator/os/process.h"

namespace rdmalloc {
namespace {

// The value of a placeholder letter; null if the letter is not one of ours.
const char* meaning(char letter, const Place& place, const char* process) {
  switch (letter) {
    case 'p':
      return process;
    case 'r':
      return place.has_rank() ? place.rank : process;
    case 'j':
      return place.has_job() ? place.job : process;
    case 'h':
      return place.machine;
    case '%':
      return "%";
    default:
      return nullptr;
  }
}

}  // namespace

bool is_file_name(os::Text pattern) {
  for (size_t i = 0; i < pattern.size; ++i) {
    if (pattern.data[i] != '%') continue;
    if (++i == pattern.size) return false;
    const auto letters = sizeof kFileNameLetters - 1;
    if (memchr(kFileNameLetters, pattern.data[i], letters) == nullptr) return false;
  }
  return true;
}

bool names_process(const char* pattern) {
  for (const char* c = pattern; *c != '\0'; ++c) {
    if (*c != '%') continue;
    if (*++c == 'p') return true;
    if (*c == '\0') return false;
  }
  return false;
}

bool expand_file_name(const char* pattern, const Place& place, char* out, size_t size) {
  const os::Decimal process(os::process_number());
  size_t length = 0;
  bool fits = true;
  const auto put = [&](char c) {
    fits = fits && length + 1 < size;
    if (fits) out[length++] = c;
  };
  for (const char* c = pattern; *c != '\0'; ++c) {
    const char* const stands_for = *c == '%' ? meaning(c[1], place, process.c_string()) : nullptr;
    if (stands_for == nullptr) {
      put(*c);
      continue;
    }
    for (const char* letter = stands_for; *letter != '\0'; ++letter) put(*letter);
    ++c;
  }
  out[length] = '\0';
  return fits;
}

}  // namespace rdmalloc
