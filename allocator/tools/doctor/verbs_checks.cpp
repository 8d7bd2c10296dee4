// Whether `rdmalloc run --verbs` can take over the registrations of RDMA programs. Only looks at
// files: the command must work without libibverbs.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

#include "allocator/tools/doctor/check.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kLibrary = "libibverbs.so.1";

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(kDevices, error)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

// The file that a program would load; its name has the version. Empty: there is none.
std::string libibverbs_file() {
  void* library = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {};
  link_map* map = nullptr;
  std::string file;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) {
    std::error_code error;
    const fs::path real = fs::canonical(map->l_name, error);
    file = error ? map->l_name : real.string();
  }
  dlclose(library);
  return file.empty() ? kLibrary : file;
}

Check devices(const std::vector<std::string>& names) {
  Check check{
      .name = "rdma devices",
      .meaning =
          "run --verbs registers the regions of the heap with a device, once for each protection "
          "domain and access, and each registration counts against the limit on locked memory",
      .cures = {"ibv_devinfo -v   (what each can do; ODP: on-demand paging, which pins nothing)"}};
  check.found = names.empty() ? "none in " + std::string(kDevices) + ": --verbs has nothing to do"
                              : joined(names);
  return check;
}

Check shim(bool has_devices) {
  Check check{
      .name = "verbs",
      .meaning =
          "programs, libraries and plug-ins that are linked with libibverbs gain from run --verbs. "
          "Those that use dlsym or dlvsym, have it linked in statically, or load plug-ins with "
          "RTLD_DEEPBIND do not: they register as before",
      .cures = {"rdmalloc run --verbs --verbs-stats -- PROGRAM   (how many calls were answered)"}};
  try {
    (void)find_shim(kShims[kVerbsShim]);
  } catch (const Refusal& refusal) {
    check.verdict = has_devices ? Verdict::kNote : Verdict::kOk;
    check.found = refusal.what();
    return check;
  }
  const std::string file = libibverbs_file();
  check.found = "run --verbs interposes " + file;
  if (!file.empty()) return check;
  check.verdict = has_devices ? Verdict::kNote : Verdict::kOk;
  check.found = std::string(kLibrary) + " is not installed";
  check.cures = {"apt-get install libibverbs1 ibverbs-providers"};
  return check;
}

}  // namespace

std::vector<Check> verbs_checks() {
  const std::vector<std::string> names = device_names();
  return {devices(names), shim(!names.empty())};
}

}  // namespace rdmalloc::cli
