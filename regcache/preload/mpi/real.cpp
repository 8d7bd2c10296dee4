#include "regcache/preload/mpi/real.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "regcache/find_function.h"
#include "regcache/published.h"

namespace rdmalloc::mpi {
namespace {

// The largest MPI_MAX_LIBRARY_VERSION_STRING of the known MPIs.
constexpr size_t kVersionSize = 8192;
// How many libraries are searched, and the longest name of one.
constexpr size_t kMostLibraries = 8;
constexpr size_t kNameSize = 512;

// The values of MPICH's interface, which Intel MPI, MVAPICH and Cray MPICH share.
constexpr Handle kMpichNullInfo = 0x1c000000;
constexpr Handle kMpichCommWorld = 0x44000000;
constexpr Handle kMpichCommSelf = 0x44000001;
constexpr Handle kMpichInt = 0x4c000405;
constexpr Handle kMpichMin = 0x58000002;
constexpr int kMpichNoMemory = 34;
constexpr const char* kMpichNames[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};
// The values of Open MPI's mpif.h.
constexpr int kOpenMpiNullInfo = 0;
constexpr int kOpenMpiCommWorld = 0;
constexpr int kOpenMpiCommSelf = 1;
constexpr int kOpenMpiInteger = 7;
constexpr int kOpenMpiMin = 2;
constexpr int kOpenMpiNoMemory = 39;

const void* object_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

const char* file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

bool is_ours(const void* address) {
  return object_of(address) == object_of(reinterpret_cast<const void*>(&is_ours));
}

struct Names {
  char name[kMostLibraries][kNameSize];
  size_t count;
};

int collect(dl_phdr_info* object, size_t, void* out) {
  auto* names = static_cast<Names*>(out);
  const char* slash = strrchr(object->dlpi_name, '/');
  const char* base = slash != nullptr ? slash + 1 : object->dlpi_name;
  const bool is_mpi = strncmp(base, "libmpi", 6) == 0 || strncmp(base, "libpmpi", 7) == 0;
  const size_t length = strlen(object->dlpi_name);
  if (!is_mpi || names->count == kMostLibraries || length >= kNameSize) return 0;
  memcpy(names->name[names->count++], object->dlpi_name, length + 1);
  return 0;
}

// A library that the program loaded itself is not in the global scope, so it is looked up by name.
// Not while dl_iterate_phdr() holds its lock.
void* find_private_library() {
  auto* names = static_cast<Names*>(calloc(1, sizeof(Names)));
  if (names == nullptr) return nullptr;
  dl_iterate_phdr(collect, names);
  void* found = nullptr;
  for (size_t i = 0; i < names->count && found == nullptr; ++i) {
    void* library = dlopen(names->name[i], RTLD_NOLOAD | RTLD_LAZY);
    if (library == nullptr) continue;
    const void* function = dlsym(library, "PMPI_Alloc_mem");
    if (function != nullptr && !is_ours(function)) found = library;
    if (found == nullptr) dlclose(library);
  }
  free(names);
  return found;
}

// A function of that name that is neither ours nor the MPI's own belongs to a tool.
template <typename Function>
void find_tool(void* library, const char* name, const void* mpi, Function* out) {
  if (!find_function(library, name, out)) return;
  const void* object = object_of(reinterpret_cast<const void*>(*out));
  if (object == mpi || is_ours(reinterpret_cast<const void*>(*out))) *out = nullptr;
}

bool find_functions(void* library, RealMpi* out) {
  (void)find_function(library, "PMPI_Win_allocate_c", &out->win_allocate_c);
  (void)find_function(library, "PMPI_Win_create_c", &out->win_create_c);
  return find_function(library, "PMPI_Alloc_mem", &out->alloc_mem) &&
         find_function(library, "PMPI_Free_mem", &out->free_mem) &&
         find_function(library, "PMPI_Win_allocate", &out->win_allocate) &&
         find_function(library, "PMPI_Win_create", &out->win_create) &&
         find_function(library, "PMPI_Win_free", &out->win_free) &&
         find_function(library, "PMPI_Initialized", &out->initialized) &&
         find_function(library, "PMPI_Finalized", &out->finalized) &&
         find_function(library, "PMPI_Info_get", &out->info_get) &&
         find_function(library, "PMPI_Comm_create_keyval", &out->comm_create_keyval) &&
         find_function(library, "PMPI_Comm_free_keyval", &out->comm_free_keyval) &&
         find_function(library, "PMPI_Comm_set_attr", &out->comm_set_attr) &&
         find_function(library, "PMPI_Comm_size", &out->comm_size) &&
         find_function(library, "PMPI_Comm_call_errhandler", &out->comm_call_errhandler) &&
         find_function(library, "PMPI_Allreduce", &out->allreduce);
}

void find_tools(void* library, RealMpi* out) {
  const void* mpi = object_of(reinterpret_cast<const void*>(out->alloc_mem));
  find_tool(library, "MPI_Alloc_mem", mpi, &out->tool.alloc_mem);
  find_tool(library, "MPI_Free_mem", mpi, &out->tool.free_mem);
  find_tool(library, "MPI_Win_allocate", mpi, &out->tool.win_allocate);
  find_tool(library, "MPI_Win_allocate_c", mpi, &out->tool.win_allocate_c);
  find_tool(library, "MPI_Win_free", mpi, &out->tool.win_free);
}

bool find_conversions(void* library, MpiHandles* out) {
  return find_function(library, "PMPI_Info_f2c", &out->info_f2c) &&
         find_function(library, "PMPI_Comm_f2c", &out->comm_f2c) &&
         find_function(library, "PMPI_Type_f2c", &out->type_f2c) &&
         find_function(library, "PMPI_Op_f2c", &out->op_f2c);
}

bool says_mpich(void* library) {
  int (*version)(char*, int*) = nullptr;
  auto* text = static_cast<char*>(calloc(1, kVersionSize));
  int length = 0;
  bool says = false;
  if (text != nullptr && find_function(library, "PMPI_Get_library_version", &version)) {
    (void)version(text, &length);
    for (const char* name : kMpichNames) says = says || strstr(text, name) != nullptr;
  }
  free(text);
  return says;
}

// Libraries with the MPI standard's own ABI (libmpi_abi) have different handles.
void find_kind(void* library, RealMpi* out) {
  const void* function = reinterpret_cast<const void*>(out->alloc_mem);
  if (dlsym(library, "ompi_mpi_info_null") != nullptr) {
    if (find_conversions(library, &out->handles)) out->handles.kind = Kind::kOpenMpi;
  } else if (strstr(file_of(function), "mpi_abi") == nullptr && says_mpich(library)) {
    out->handles.kind = Kind::kMpich;
  }
}

bool find_all(RealMpi* out) {
  void* library =
      dlsym(RTLD_NEXT, "PMPI_Alloc_mem") != nullptr ? RTLD_NEXT : find_private_library();
  if (library == nullptr || !find_functions(library, out)) return false;
  find_tools(library, out);
  find_kind(library, out);
  return true;
}

constinit Published<RealMpi> published;

}  // namespace

// Converts from Fortran's numbers, which do not depend on where the linker put Open MPI's objects:
// the program may have its own copies of these, which the library then uses, too.
Handle MpiHandles::null_info() const {
  return kind == Kind::kMpich ? kMpichNullInfo : info_f2c(kOpenMpiNullInfo);
}

Handle MpiHandles::comm_self() const {
  return kind == Kind::kMpich ? kMpichCommSelf : comm_f2c(kOpenMpiCommSelf);
}

Handle MpiHandles::comm_world() const {
  return kind == Kind::kMpich ? kMpichCommWorld : comm_f2c(kOpenMpiCommWorld);
}

Handle MpiHandles::int_type() const {
  return kind == Kind::kMpich ? kMpichInt : type_f2c(kOpenMpiInteger);
}

Handle MpiHandles::min_op() const { return kind == Kind::kMpich ? kMpichMin : op_f2c(kOpenMpiMin); }

int MpiHandles::no_memory() const {
  return kind == Kind::kMpich ? kMpichNoMemory : kOpenMpiNoMemory;
}

const RealMpi* real_mpi() { return published.get(find_all); }

}  // namespace rdmalloc::mpi
