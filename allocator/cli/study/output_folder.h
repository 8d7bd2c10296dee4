// The one directory that a study writes to. What is written is on its way to the disk at once, so
// that an end in the middle leaves what was measured; each failure is a sentence with the file.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace rdmalloc::cli::study {

// The disk is full, or was taken away.
class WriteFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class OutputFolder {
 public:
  // Makes it, and what is above it. Throws Refusal when there is something in it already, unless
  // `force`, or when nothing can be written there.
  OutputFolder(const std::string& path, bool force);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  // Takes away what this object has made: nothing was run after all.
  void abandon();

  // Makes a folder in it.
  void make_folder(const std::string& name);

  // Adds to a file that this object began. Throws WriteFailure.
  void append(const std::string& name, const std::string& text);

  // Writes a whole file, all or nothing. Throws WriteFailure.
  void write(const std::string& name, const std::string& text);

 private:
  struct Close {
    void operator()(FILE* file) const { fclose(file); }
  };
  using File = std::unique_ptr<FILE, Close>;
  [[noreturn]] void fail(const std::string& name, int error) const;

  std::string path_;
  bool made_;  // it was not there
  std::vector<std::string> folders_;
  std::map<std::string, File> open_;
};

// study-PROGRAM-20261121-180000, in the current folder; the same with -2, -3 if it exists.
std::string default_output_path(const std::string& program, const std::string& date);

}  // namespace rdmalloc::cli::study
