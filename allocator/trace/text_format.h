// Traces as text, one line for each event: for people to read and for other tools to write.
//
//   program WORDS...                             once, before the events; what was recorded
//   a OBJECT SIZE [ALIGNMENT] [thread N] [at NS] allocates
//   z OBJECT SIZE [ALIGNMENT] [thread N] [at NS] allocates zeroed
//   r OBJECT SIZE [thread N] [at NS]             resizes
//   f OBJECT [thread N] [at NS]                  frees
//   # anything                                   a comment; so are empty lines
//
// OBJECT is any word that does not name another live object. SIZE is in bytes, optionally with K,
// M, G or T (powers of 1024); ALIGNMENT is a power of two. N and NS (nanoseconds since the
// beginning) default to those of the previous line, and to 0 in the first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "allocator/trace/event.h"

namespace rdmalloc::trace {

// Turns lines into events: lines of the format above, or of glibc's mtrace(), distinguished line by
// line. Numbers its objects as it likes; Writer accepts that. One thread at a time.
class TextParser {
 public:
  // True: the line is an event. Throws std::runtime_error, saying what is wrong and what was
  // expected.
  bool parse(std::string_view line, Event* out);

  // What the program line has said so far.
  const std::string& program() const { return program_; }

  // mtrace's frees of what was allocated before it began; they are left out.
  uint64_t unknown_frees() const { return unknown_frees_; }

 private:
  bool parse_event(std::string_view line, Event* out);
  bool parse_mtrace(std::string_view line, Event* out);
  void parse_rest(std::string_view line, bool may_align, Event* out);
  uint64_t add_object(std::string_view name);
  uint64_t find_object(std::string_view name);
  void forget_object(std::string_view name) { objects_.erase(std::string(name)); }

  std::string program_;
  std::unordered_map<std::string, uint64_t> objects_;
  uint64_t next_object_ = 0;
  uint32_t thread_ = 0;
  uint64_t time_ns_ = 0;
  bool has_events_ = false;
  bool resizes_ = false;  // mtrace's first line of a realloc was of this object:
  uint64_t resized_ = 0;
  uint64_t unknown_frees_ = 0;
};

// The line of an event, without a newline, that follows `before`.
std::string to_text(const Event& event, const Event& before);

}  // namespace rdmalloc::trace
