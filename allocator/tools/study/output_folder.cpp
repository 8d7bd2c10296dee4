#include "allocator/tools/study/output_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "allocator/report/whole_file.h"
#include "allocator/tools/refusal.h"

namespace rdmalloc::cli::study {

namespace fs = std::filesystem;

OutputFolder::OutputFolder(const std::string& path, bool force) : path_(path) {
  std::error_code error;
  made_ = !fs::exists(path_, error);
  fs::create_directories(path_, error);
  const bool is_empty = !error && fs::is_empty(path_, error);
  if (!error && access(path_.c_str(), W_OK | X_OK) != 0)
    error.assign(errno, std::system_category());
  if (error) throw Refusal(path_ + ": " + error.message() + ": name another folder with -o");
  if (!is_empty && !force) {
    throw Refusal(path_ +
                  " is not empty: name another folder with -o, or let the study overwrite "
                  "its files there with --force");
  }
}

void OutputFolder::fail(const std::string& name, int error) const {
  throw WriteFailure(file(name) + " cannot be written: " + strerror(error));
}

void OutputFolder::abandon() {
  std::error_code ignored;
  for (const auto& [name, open] : open_) fs::remove(file(name), ignored);
  open_.clear();
  for (const std::string& name : folders_) fs::remove_all(file(name), ignored);
  if (made_) fs::remove(path_, ignored);
}

void OutputFolder::make_folder(const std::string& name) {
  std::error_code error;
  if (fs::create_directories(file(name), error)) folders_.push_back(name);
  if (error) fail(name, error.value());
}

void OutputFolder::append(const std::string& name, const std::string& text) {
  auto known = open_.find(name);
  if (known == open_.end()) {
    File begun(fopen(file(name).c_str(), "we"));
    if (!begun) fail(name, errno);
    known = open_.emplace(name, std::move(begun)).first;
  }
  FILE* to = known->second.get();
  if (fwrite(text.data(), 1, text.size(), to) != text.size() || fflush(to) != 0) fail(name, errno);
}

void OutputFolder::write(const std::string& name, const std::string& text) {
  const auto self = static_cast<uint64_t>(getpid());
  if (!write_whole_file(file(name).c_str(), self, text.data(), text.size())) fail(name, errno);
}

std::string default_output_path(const std::string& program, const std::string& date) {
  std::string moment;
  for (const char c : date) {
    if (c >= '0' && c <= '9') moment += c;
    if (c == 'T') moment += '-';
  }
  const std::string base = "study-" + fs::path(program).filename().string() + "-" + moment;
  std::string path = base;
  std::error_code error;
  for (int number = 2; fs::exists(path, error); ++number) {
    path = base + "-" + std::to_string(number);
  }
  return path;
}

}  // namespace rdmalloc::cli::study
