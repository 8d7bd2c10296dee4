#include "allocator/tools/run/privilege.h"

#include <endian.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "allocator/tools/refusal.h"

namespace rdmalloc::cli {
namespace {

bool on_nosuid_mount(const std::string& program) {
  struct statvfs mount {};
  return statvfs(program.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0;
}

bool has_file_capabilities(const std::string& program) {
  vfs_ns_cap_data data{};
  const ssize_t got = getxattr(program.c_str(), "security.capability", &data, sizeof data);
  if (got < static_cast<ssize_t>(XATTR_CAPS_SZ_1)) return false;
  uint32_t any = le32toh(data.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE;
  any |= data.data[0].permitted;
  if (got >= static_cast<ssize_t>(XATTR_CAPS_SZ_2)) any |= data.data[1].permitted;
  return any != 0;
}

[[noreturn]] void refuse(const std::string& program, const std::string& what) {
  throw Refusal(program + " " + what +
                ", so ld.so ignores LD_PRELOAD; link the program with -lrdmalloc, or run a copy "
                "without these rights (cp drops them)");
}

}  // namespace

void check_privilege(const std::string& program) {
  struct stat status {};
  // On a nosuid mount the kernel itself ignores all such rights.
  if (stat(program.c_str(), &status) != 0 || on_nosuid_mount(program)) return;
  // File capabilities add nothing to a real root. no_new_privs withholds them, but ld.so is still
  // told.
  if (getuid() != 0 && has_file_capabilities(program)) refuse(program, "has file capabilities");
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) {
    refuse(program, "is set-user-id to another user");
  }
  // Without the group's execute permission the bit has another meaning.
  const bool set_group = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0;
  if (set_group && status.st_gid != getgid()) {
    refuse(program, "is set-group-id to another group");
  }
}

}  // namespace rdmalloc::cli
