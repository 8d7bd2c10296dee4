#include "allocator/report/whole_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <initializer_list>

#include "allocator/os/file.h"

namespace rdmalloc {
namespace {

constexpr int kHow = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY;
constexpr mode_t kMode = 0644;

bool may_be_replaced(const char* path) {
  struct stat found;
  return lstat(path, &found) != 0 || S_ISREG(found.st_mode);
}

bool name_beside(const char* path, uint64_t process, char* out, size_t size) {
  const os::Decimal number(process);
  size_t length = 0;
  for (const char* piece : {path, ".", number.c_string(), ".part"}) {
    for (; *piece != '\0'; ++piece) {
      if (length + 1 >= size) return false;
      out[length++] = *piece;
    }
  }
  out[length] = '\0';
  return true;
}

}  // namespace

WholeFile::WholeFile(const char* path, uint64_t process) : path_(path) {
  if (may_be_replaced(path) && name_beside(path, process, beside_, sizeof beside_)) {
    fd_ = open(beside_, kHow | O_NOFOLLOW, kMode);
  }
  if (fd_ >= 0) return;
  beside_[0] = '\0';
  fd_ = open(path, kHow, kMode);
}

WholeFile::~WholeFile() {
  if (fd_ >= 0) close(fd_);
  if (is_beside()) (void)unlink(beside_);
}

// A network file system may report a failed write only when the file is closed.
bool WholeFile::keep() {
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0) return false;
  if (!is_beside()) return true;
  if (rename(beside_, path_) != 0) return false;
  beside_[0] = '\0';
  return true;
}

bool write_whole_file(const char* path, uint64_t process, const char* data, size_t size) {
  WholeFile file(path, process);
  return file.descriptor() >= 0 && os::write_all(file.descriptor(), data, size) && file.keep();
}

}  // namespace rdmalloc
