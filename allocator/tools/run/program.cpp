#include "allocator/tools/run/program.h"

#include <endian.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "allocator/tools/refusal.h"
#include "allocator/tools/run/elf_file.h"
#include "allocator/tools/run/library.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

// How many levels of interpreters that are themselves scripts the kernel follows.
constexpr int kMostInterpreters = 5;
constexpr size_t kLongestFirstLine = 256;

bool is_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_executable(const std::string& path) {
  return is_file(path) && access(path.c_str(), X_OK) == 0;
}

std::string explain_not_executable(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return path + " is a directory";
  if (is_file(path)) return path + " may not be executed by you (chmod +x gives the right)";
  return path + " is not a program";
}

// The interpreter of a "#!" line; nothing if the file has none.
std::optional<std::string> script_interpreter(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line(kLongestFirstLine, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(file.gcount()));
  if (line.compare(0, 2, "#!") != 0) return std::nullopt;
  const std::vector<std::string> words = words_of(line.substr(2, line.find('\n') - 2));
  return words.empty() ? "" : words.front();
}

std::string base_name(const std::string& path) { return std::filesystem::path(path).filename(); }

void check_architecture(const ElfFile& file, const std::string& program, const ElfFile& library) {
  if (file.native && file.machine == library.machine) return;
  throw Refusal(program + " is a " + machine_name(file) + " program and the library is " +
                machine_name(library) + ": ld.so would not load it; build rdmalloc for " +
                machine_name(file));
}

void check_loader(const ElfFile& file, const std::string& program) {
  const bool is_loader = file.interpreter.empty() && file.has_soname;
  if (is_loader) return;
  if (file.interpreter.empty()) {
    throw Refusal(program +
                  " is statically linked: no ld.so runs that could preload the library; link the "
                  "program dynamically, with -lrdmalloc or without");
  }
  const std::optional<ElfFile> own = read_elf(own_path());
  if (!own || own->interpreter.empty()) return;
  if (base_name(own->interpreter) == base_name(file.interpreter)) return;
  throw Refusal(program + " runs on another C library (its loader is " + file.interpreter +
                ", the library needs " + own->interpreter +
                "): run a build of the program that is made for this system");
}

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

[[noreturn]] void refuse_privileged(const std::string& program, const std::string& what) {
  throw Refusal(program + " " + what +
                ", so ld.so ignores LD_PRELOAD; link the program with -lrdmalloc, or run a copy "
                "without these rights (cp drops them)");
}

// Refuses when the kernel would start this file in secure-execution mode for this caller, where
// ld.so ignores LD_PRELOAD: set-user-id, set-group-id or file capabilities that take effect.
void check_privilege(const std::string& program) {
  struct stat status {};
  // On a nosuid mount the kernel itself ignores all such rights.
  if (stat(program.c_str(), &status) != 0 || on_nosuid_mount(program)) return;
  // File capabilities add nothing to a real root. no_new_privs withholds them, but ld.so is still
  // told.
  if (getuid() != 0 && has_file_capabilities(program))
    refuse_privileged(program, "has file capabilities");
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) {
    refuse_privileged(program, "is set-user-id to another user");
  }
  // Without the group's execute permission the bit has another meaning.
  const bool set_group = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0;
  if (set_group && status.st_gid != getgid()) {
    refuse_privileged(program, "is set-group-id to another group");
  }
}

std::vector<std::string> check_elf(const ElfFile& file, const std::string& program,
                                   const std::string& library, const std::string& done) {
  const std::optional<ElfFile> ours = read_elf(library);
  if (!ours) throw Refusal(library + " is damaged: install rdmalloc again");
  check_architecture(file, program, *ours);
  if (!file.runnable) throw Refusal(program + " is an object file or damaged: name a program");
  check_loader(file, program);
  check_privilege(program);
  if (!file.defines_malloc) return {};
  return {program + " brings a malloc of its own: what it allocates with that is not " + done};
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_executable(name)) return name;
    if (access(name.c_str(), F_OK) == 0) {
      throw Refusal(explain_not_executable(name), kExitNotExecutable);
    }
    if (errno == EACCES) throw Refusal(name + ": " + strerror(errno), kExitNotExecutable);
    throw Refusal(name + ": " + strerror(errno), kExitNotFound);
  }
  const char* path = getenv("PATH");
  std::string seen;
  for (const std::string& folder : parts_of(path != nullptr ? path : "/bin:/usr/bin", ':')) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable(candidate)) return candidate;
    if (seen.empty() && is_file(candidate)) seen = candidate;
  }
  if (!seen.empty()) throw Refusal(explain_not_executable(seen), kExitNotExecutable);
  throw Refusal(name + ": not found on PATH", kExitNotFound);
}

std::vector<std::string> check_preloadable(const std::string& program, const std::string& library,
                                           const std::string& done) {
  std::string file = program;
  for (int depth = 0; depth < kMostInterpreters; ++depth) {
    if (const std::optional<ElfFile> elf = read_elf(file)) {
      return check_elf(*elf, file, library, done);
    }
    if (access(file.c_str(), R_OK) != 0) {
      return {file + " may not be read by you: if it is statically linked, nothing is " + done};
    }
    const std::optional<std::string> interpreter = script_interpreter(file);
    if (!interpreter) {
      throw Refusal(file +
                        " is neither an ELF program nor a script with a #! line: run its "
                        "interpreter, such as: rdmalloc run -- sh " +
                        file,
                    kExitNotExecutable);
    }
    if (!is_executable(*interpreter)) {
      throw Refusal(file + " names an interpreter that cannot be executed: " + *interpreter,
                    kExitNotExecutable);
    }
    file = *interpreter;
  }
  throw Refusal(program + " is a script whose interpreters are scripts, too many deep",
                kExitNotExecutable);
}

bool loads_verbs_by_name(const std::string& program) {
  return has_in_data(program, "libibverbs.so");
}

}  // namespace rdmalloc::cli
