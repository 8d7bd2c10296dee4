#include "allocator/cli/library.h"

#include <cstdlib>
#include <filesystem>

#include "allocator/cli/refusal.h"

namespace rdmalloc::cli {
namespace {

namespace fs = std::filesystem;

// What ld.so takes for the end of a name in LD_PRELOAD.
constexpr const char* kSeparators = " :";

}  // namespace

std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Refusal("cannot read /proc/self/exe (" + error.message() + "): mount /proc");
  return path;
}

std::string find_library() {
  const fs::path folder = fs::path(own_path()).parent_path();
  std::string looked;
  for (const char* where : {"../lib", RDMALLOC_LIBRARY_FOLDER}) {
    std::error_code error;
    const fs::path candidate = (folder / where / RDMALLOC_LIBRARY_NAME).lexically_normal();
    if (!fs::exists(candidate, error)) {
      looked = candidate;
      continue;
    }
    if (candidate.string().find_first_of(kSeparators) != std::string::npos) {
      throw Refusal(
          "ld.so cannot preload " + candidate.string() +
          ": a blank or a colon in the path separates names; install rdmalloc in a folder "
          "without them");
    }
    return candidate;
  }
  throw Refusal("cannot find the library " + looked +
                ": it belongs in lib beside this command's bin; install rdmalloc again");
}

void preload(const std::string& library) {
  std::string value = library;
  const char* before = getenv("LD_PRELOAD");
  if (before != nullptr && *before != '\0') {
    const std::string kept = before;
    // A program that `run` starts may itself call `run`.
    if (kept.substr(0, kept.find_first_of(kSeparators)) == library) return;
    value += ":" + kept;
  }
  setenv("LD_PRELOAD", value.c_str(), 1);
}

}  // namespace rdmalloc::cli
