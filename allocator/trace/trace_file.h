// Packed traces written and read by programs that may malloc and throw: the command, and what packs
// a recording. A replay reads with PackedReader.
#pragma once

#include <memory>
#include <string>

#include "allocator/trace/event.h"

namespace rdmalloc::trace {

struct Header : Counts {
  std::string program;  // as in a shell: its name and arguments
};

class PackedReader;

// Every function throws std::runtime_error with a sentence that names the file. One thread at a
// time.
class Writer {
 public:
  Writer(const std::string& path, const std::string& program);
  // Without finish() the file stays, and reads as a truncated trace.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Objects and threads may have any numbers, as long as an object is alive when it is resized or
  // freed and not when it is allocated: the file has numbers of its own, those that Event promises.
  // Times are kept in microseconds.
  void add(const Event& event);

  // Writes what is left, and the header.
  Header finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

class Reader {
 public:
  explicit Reader(const std::string& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Of a trace whose writer did not come to its end the counts are 0.
  const Header& header() const { return header_; }

  // False: the end. Throws where the file is damaged.
  bool next(Event* out);

  // The file ended before its header says. Known when next() has said false.
  bool truncated() const;

  // Back to the first event.
  void rewind();

 private:
  std::string path_;
  std::unique_ptr<PackedReader> file_;
  Header header_;
};

}  // namespace rdmalloc::trace
