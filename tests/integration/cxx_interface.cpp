// The C++ header in use, over a backend that registers with no device.
#include <rdmalloc/rdmalloc.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

int failures = 0;

void check(bool good, const char* what) {
  if (good) return;
  printf("not so: %s\n", what);
  ++failures;
}

struct Device {
  int registered = 0;
  bool refuses = false;
  unsigned heap_access = 0;
  unsigned exposed_access = 0;
};

rdm_backend device_backend() {
  rdm_backend backend{};
  backend.size = sizeof backend;
  backend.name = "device";
  backend.limits = [](void*, rdm_backend_limits*) { return int(RDM_OK); };
  backend.register_memory = [](void* context, const rdm_backend_request* request,
                               rdm_backend_key* out, char* why, size_t why_size) {
    auto* device = static_cast<Device*>(context);
    if (device->refuses) {
      snprintf(why, why_size, "the device is full");
      return int(RDM_SYSTEM);
    }
    (request->exposed ? device->exposed_access : device->heap_access) = request->access;
    out->lkey = static_cast<uint32_t>(++device->registered);
    return int(RDM_OK);
  };
  backend.deregister_memory = [](void* context, const rdm_backend_key*) {
    --static_cast<Device*>(context)->registered;
    return int(RDM_OK);
  };
  return backend;
}

}  // namespace

int main() {
  Device device;
  const rdm_backend backend = device_backend();
  {
    const unsigned remote = RDM_LOCAL_WRITE | RDM_REMOTE_READ;
    rdmalloc::domain domain = rdmalloc::domain::custom(backend, &device, remote);
    std::vector<char> heap(100000);
    std::vector<char, rdmalloc::exposed_allocator<char>> shown(100000);
    rdmalloc::exposed_resource resource;
    std::pmr::vector<int> pooled(5000, &resource);
    check(domain.lookup(heap.data(), heap.size()).has_value(), "heap memory has a key");
    check(domain.lookup(shown.data(), shown.size()).has_value(), "exposed memory has a key");
    check(domain.lookup(pooled.data(), 5000 * sizeof(int)).has_value(), "so has the resource's");
    check(!domain.lookup(&device, sizeof device).has_value(), "the stack has none");
    check(device.heap_access == RDM_LOCAL_WRITE, "the heap gives no remote rights");
    check(device.exposed_access == remote, "exposed memory gives those asked for");
    rdmalloc::domain moved = std::move(domain);
    check(!domain && moved, "a moved domain has one owner");
  }
  check(device.registered == 0, "a domain closes itself");
  device.refuses = true;
  try {
    rdmalloc::domain::custom(backend, &device);
    check(false, "a domain that cannot be opened throws");
  } catch (const rdmalloc::error& error) {
    check(error.status() == RDM_SYSTEM, "with the backend's status");
    check(std::string(error.what()) == "the device is full", "and its sentence");
  }
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
