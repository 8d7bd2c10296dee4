#include "allocator/tools/study/allocators.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::study {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOurs = "rdmalloc";

// The library names of other allocators, best first: the versioned name that a distribution
// installs for programs, then the plain name that comes only with headers.
struct Peer {
  const char* name;
  std::array<const char*, 4> files;
  const char* package;
};
constexpr std::array kPeers{
    Peer{"jemalloc", {"libjemalloc.so.2", "libjemalloc.so"}, "libjemalloc2"},
    Peer{"mimalloc",
         {"libmimalloc.so.2.0", "libmimalloc.so.2", "libmimalloc.so.3", "libmimalloc.so"},
         "libmimalloc2.0"},
    Peer{"tcmalloc",
         {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so"},
         "libtcmalloc-minimal4"},
};

const Peer* find_peer(const std::string& name) {
  const auto* const found = std::ranges::find(kPeers, name, &Peer::name);
  return found == kPeers.end() ? nullptr : found;
}

// Folders with libraries of this command's architecture: those that users name, then those next to
// the libc it runs on, then the usual install locations.
std::vector<fs::path> library_folders() {
  std::vector<fs::path> folders;
  if (const char* path = getenv("LD_LIBRARY_PATH")) {
    for (const std::string& folder : parts_of(path, ':')) {
      if (!folder.empty()) folders.push_back(fs::absolute(folder));
    }
  }
  Dl_info libc{};
  if (dladdr(reinterpret_cast<void*>(&fopen), &libc) != 0 && libc.dli_fname != nullptr) {
    const fs::path folder = fs::path(libc.dli_fname).parent_path();
    folders.push_back(folder);
    folders.push_back("/usr" / folder.relative_path());
    folders.push_back("/usr/local/lib" / folder.filename());
  }
  for (const char* folder : {"/usr/local/lib", "/usr/local/lib64", "/usr/lib64", "/usr/lib"}) {
    folders.push_back(folder);
  }
  return folders;
}

// The files with this name in ld.so's cache, as `ldconfig -p` lists them.
std::vector<std::string> cached_libraries() {
  std::vector<std::string> files;
  FILE* list = popen("/sbin/ldconfig -p 2>/dev/null", "re");
  if (list == nullptr) return files;
  for (std::array<char, 1024> line{}; fgets(line.data(), line.size(), list) != nullptr;) {
    const std::string text = line.data();
    const size_t arrow = text.find(" => ");
    if (arrow == std::string::npos) continue;
    files.push_back(text.substr(arrow + 4, text.find('\n') - arrow - 4));
  }
  pclose(list);
  return files;
}

std::string find_library_file(const Peer& peer) {
  const std::vector<fs::path> folders = library_folders();
  static const std::vector<std::string> cached = cached_libraries();
  for (const char* file : peer.files) {
    if (file == nullptr) break;
    for (const fs::path& folder : folders) {
      std::error_code error;
      if (fs::is_regular_file(folder / file, error)) return folder / file;
    }
    for (const std::string& path : cached) {
      if (fs::path(path).filename() == file) return path;
    }
  }
  return "";
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  throw Refusal("there is no allocator '" + name + "': known are " + joined(allocator_names()));
}

bool is_allocator_library(const std::string& path) {
  const std::string file = fs::path(path).filename();
  if (file.starts_with("librdmalloc.so")) return true;
  return std::ranges::any_of(kPeers, [&](const Peer& peer) {
    return std::ranges::any_of(
        peer.files, [&](const char* name) { return name != nullptr && file.starts_with(name); });
  });
}

}  // namespace

const std::vector<std::string>& allocator_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"glibc"};
    for (const Peer& peer : kPeers) all.emplace_back(peer.name);
    all.emplace_back(kOurs);
    return all;
  }();
  return names;
}

std::optional<Allocator> look_for_allocator(const std::string& name) {
  if (name == "glibc") return Allocator{name, "", false};
  if (name == kOurs) return Allocator{name, find_library(), true};
  const Peer* peer = find_peer(name);
  if (peer == nullptr) refuse_unknown(name);
  const std::string library = find_library_file(*peer);
  if (library.empty()) return std::nullopt;
  return Allocator{name, library, false};
}

Allocator find_allocator(const std::string& name) {
  std::optional<Allocator> found = look_for_allocator(name);
  if (found) return *found;
  throw Refusal(name + " is not installed (Debian: apt-get install " + find_peer(name)->package +
                ")");
}

std::string preload_for(const Allocator& allocator, const std::string& before) {
  std::vector<std::string> first;
  if (!allocator.library.empty()) first.push_back(allocator.library);
  return preloads_with(first, before, is_allocator_library);
}

std::vector<std::string> parse_allocators(const std::string& list) {
  std::vector<std::string> names;
  for (const std::string& name : parts_of(list, ',')) {
    if (std::ranges::find(allocator_names(), name) == allocator_names().end()) refuse_unknown(name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  if (names.empty()) refuse_unknown(list);
  return names;
}

}  // namespace rdmalloc::cli::study
