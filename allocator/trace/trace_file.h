// Reads and writes packed traces in programs that may malloc and throw: the command, and the packer
// of a recording. A replay uses PackedReader.
#pragma once

#include <memory>
#include <string>

#include "allocator/trace/event.h"

namespace rdmalloc::trace {

struct Header : Counts {
  std::string program;  // its name and arguments, quoted for a shell
};

class PackedReader;

// Every function throws std::runtime_error with a message that names the file. One thread at a
// time.
class Writer {
 public:
  Writer(const std::string& path, const std::string& program);
  // Without finish() the file remains, and reads as a truncated trace.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Objects and threads may have any numbers, as long as an object is live when it is resized or
  // freed and not live when it is allocated: the file has its own numbers, those that Event
  // promises. Times are kept in microseconds.
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

  // If the writer did not finish, the counts are 0.
  const Header& header() const { return header_; }

  // False: the end. Throws if the file is damaged.
  bool next(Event* out);

  // The file ended before its header says. Known once next() has returned false.
  bool truncated() const;

  // Returns to the first event.
  void rewind();

 private:
  std::string path_;
  std::unique_ptr<PackedReader> file_;
  Header header_;
};

}  // namespace rdmalloc::trace
