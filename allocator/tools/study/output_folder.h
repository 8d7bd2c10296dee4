// The one directory that a study writes to. Data is written at once, so that an early end keeps
// what was measured. Every failure is a message that names the file.
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
  // Makes the folder and its parents. Throws Refusal if it is not empty, unless `force`, or if it
  // is not writable.
  OutputFolder(const std::string& path, bool force);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  // Removes what this object has made, for a study that ran nothing.
  void abandon();

  // Makes a folder inside it.
  void make_folder(const std::string& name);

  // Appends to a file that this object began. Throws WriteFailure.
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
  bool made_;  // it did not exist before
  std::vector<std::string> folders_;
  std::map<std::string, File> open_;
};

// study-PROGRAM-20261121-180000 in the current folder; with -2, -3 added if it exists.
std::string default_output_path(const std::string& program, const std::string& date);

}  // namespace rdmalloc::cli::study
