#include "allocator/tools/run/library.h"

#include <algorithm>
#include <filesystem>

#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

namespace fs = std::filesystem;

// What ld.so accepts as separators in LD_PRELOAD.
constexpr const char* kSeparators = " :";

// Finds a library in ../lib or in the install location. Throws Refusal with the advice.
std::string find_beside(const char* name, const char* advice) {
  const fs::path folder = fs::path(own_path()).parent_path();
  std::string looked;
  for (const char* where : {"../lib", RDMALLOC_LIBRARY_FOLDER}) {
    std::error_code error;
    const fs::path candidate = (folder / where / name).lexically_normal();
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
  throw Refusal("cannot find the library " + looked + ": " + advice);
}

}  // namespace

std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Refusal("cannot read /proc/self/exe (" + error.message() + "): mount /proc");
  return path;
}

std::string find_library() {
  return find_beside(RDMALLOC_LIBRARY_NAME,
                     "it belongs in lib beside this command's bin; install rdmalloc again");
}

std::string find_shim(const Shim& shim) {
  const std::string advice = shim.headers == nullptr
                                 ? "it belongs beside librdmalloc.so; install rdmalloc-mpi"
                                 : std::string("it is built where the headers of ") + shim.headers +
                                       " are; install those, then build and install rdmalloc again";
  return find_beside(shim.library, advice.c_str());
}

bool has_shim(const Shim& shim) {
  try {
    return !find_shim(shim).empty();
  } catch (const Refusal&) {
    return false;
  }
}

std::string find_recorder() {
  return find_beside("librdmalloc-trace.so",
                     "it belongs beside librdmalloc.so; install rdmalloc-tools");
}

std::string preloads_with(const std::vector<std::string>& libraries, const std::string& before,
                          const std::function<bool(const std::string&)>& is_dropped) {
  std::vector<std::string> all = libraries;
  std::string separated = before;
  std::ranges::replace(separated, ' ', ':');
  for (const std::string& name : parts_of(separated, ':')) {
    if (!name.empty() && !is_dropped(name)) all.push_back(name);
  }
  return joined(all, ":");
}

void preload(const std::vector<std::string>& libraries) {
  // A program started by `run` may itself call `run`.
  set_preloads(preloads_with(libraries, preloads(), [&](const std::string& name) {
    return std::ranges::find(libraries, name) != libraries.end();
  }));
}

}  // namespace rdmalloc::cli
