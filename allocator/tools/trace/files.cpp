#include "allocator/tools/trace/trace.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"
#include "allocator/trace/text_format.h"
#include "allocator/trace/trace_file.h"

namespace rdmalloc::cli {
namespace {

namespace fs = std::filesystem;

// The new trace, under another name until it is complete: an older file stays until then, and no
// partial file is left behind.
class NewTrace {
 public:
  explicit NewTrace(const std::string& path)
      : path_(path), partial_(path + ".partial-" + std::to_string(getpid())) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      throw Refusal(path + ": is there already, and not a regular file");
    }
  }
  ~NewTrace() {
    writer_.reset();
    unlink(partial_.c_str());
  }
  NewTrace(const NewTrace&) = delete;
  NewTrace& operator=(const NewTrace&) = delete;

  void add(const trace::Event& event, const std::string& program) {
    begin(program);
    writer_->add(event);
  }

  trace::Header finish(const std::string& program) {
    begin(program);
    trace::Header header = writer_->finish();
    if (rename(partial_.c_str(), path_.c_str()) != 0) throw Refusal(path_ + ": " + strerror(errno));
    return header;
  }

 private:
  void begin(const std::string& program) {
    if (!writer_) writer_.emplace(partial_, program);
  }

  std::string path_;
  std::string partial_;
  std::optional<trace::Writer> writer_;
};

// Throws std::runtime_error with the line's number.
void import_lines(std::istream& text, const std::string& name, trace::TextParser& parser,
                  NewTrace& trace) {
  size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    trace::Event event;
    bool is_event = false;
    try {
      is_event = parser.parse(line, &event);
    } catch (const std::runtime_error& error) {
      throw Refusal(name + ": line " + std::to_string(number) + ": " + error.what() +
                    "; see rdmalloc trace import --help");
    }
    if (is_event) trace.add(event, parser.program());
  }
  if (text.bad()) throw Refusal(name + ": " + strerror(errno));
}

void import_text(const std::string& name, trace::TextParser& parser, NewTrace& trace) {
  if (name == "-") return import_lines(std::cin, "standard input", parser, trace);
  if (fs::is_directory(name)) throw Refusal(name + ": is a folder, not text");
  std::ifstream text(name);
  if (!text) throw Refusal(name + ": " + strerror(errno));
  import_lines(text, name, parser, trace);
}

}  // namespace

int note_truncated(const std::string& file) {
  fprintf(stderr, "rdmalloc: %s: the trace is cut off: this is the part that is there\n",
          file.c_str());
  return kExitTruncated;
}

int trace_import(const std::string& text, const std::string& file) {
  trace::TextParser parser;
  NewTrace trace(file);
  import_text(text, parser, trace);
  const trace::Header header = trace.finish(parser.program());
  printf("%s: %s of %s\n", file.c_str(), count_text(header.events, "event").c_str(),
         count_text(header.threads, "thread").c_str());
  if (parser.unknown_frees() > 0) {
    printf("left out: %s of what was allocated before the text begins\n",
           count_text(parser.unknown_frees(), "free").c_str());
  }
  return kExitOk;
}

int trace_text(const std::string& file) {
  trace::Reader reader(file);
  std::string program = reader.header().program;
  // One line, whatever the program's arguments were.
  for (char& c : program) c = c == '\n' || c == '\r' ? ' ' : c;
  if (!program.empty()) printf("program %s\n", program.c_str());
  trace::Event before;
  for (trace::Event event; reader.next(&event);) {
    puts(to_text(event, before).c_str());
    // The reader has closed the output: no need to go on.
    if (ferror(stdout) != 0) break;
    before = event;
  }
  if (fflush(stdout) != 0) throw Refusal(std::string("standard output: ") + strerror(errno));
  return reader.truncated() ? note_truncated(file) : kExitOk;
}

}  // namespace rdmalloc::cli
