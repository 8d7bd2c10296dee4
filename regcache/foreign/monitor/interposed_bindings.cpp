#include "regcache/foreign/monitor/interposed_bindings.h"

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace rdmalloc::interposed {
namespace {

#if defined(__x86_64__)
constexpr bool binds_function(uint64_t info) {
  return ELF64_R_TYPE(info) == R_X86_64_JUMP_SLOT || ELF64_R_TYPE(info) == R_X86_64_GLOB_DAT;
}
#elif defined(__aarch64__)
constexpr bool binds_function(uint64_t info) {
  return ELF64_R_TYPE(info) == R_AARCH64_JUMP_SLOT || ELF64_R_TYPE(info) == R_AARCH64_GLOB_DAT;
}
#else
constexpr bool binds_function(uint64_t) { return false; }
#endif

struct Relocations {
  const ElfW(Rela) * first = nullptr;
  size_t bytes = 0;
};

struct Object {
  uintptr_t base = 0;  // addresses in the object are relative to this
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  Relocations of_calls;
  Relocations of_data;

  explicit Object(const dl_phdr_info& info) : base(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = info.dlpi_phdr[i];
      const uintptr_t from = base + part.p_vaddr;
      if (part.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(from);
      if (part.p_type != PT_LOAD) continue;
      if (from < begin) begin = from;
      if (from + part.p_memsz > end) end = from + part.p_memsz;
    }
    for (const ElfW(Dyn)* one = dynamic; one != nullptr && one->d_tag != DT_NULL; ++one) {
      read(*one);
    }
  }

  // The dynamic linker has already converted most of them to addresses.
  template <typename To>
  const To* at(uintptr_t value) const {
    return reinterpret_cast<const To*>(value < base ? base + value : value);
  }
  void read(const ElfW(Dyn) & one) {
    switch (one.d_tag) {
      case DT_SYMTAB:
        symbols = at<ElfW(Sym)>(one.d_un.d_ptr);
        break;
      case DT_STRTAB:
        names = at<char>(one.d_un.d_ptr);
        break;
      case DT_JMPREL:
        of_calls.first = at<ElfW(Rela)>(one.d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        of_calls.bytes = one.d_un.d_val;
        break;
      case DT_RELA:
        of_data.first = at<ElfW(Rela)>(one.d_un.d_ptr);
        break;
      case DT_RELASZ:
        of_data.bytes = one.d_un.d_val;
        break;
      default:
        break;
    }
  }

  bool visit(const Relocations& all, VisitBound visitor, void* context) const {
    if (all.first == nullptr || symbols == nullptr || names == nullptr) return true;
    for (size_t i = 0; i < all.bytes / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)& one = all.first[i];
      if (!binds_function(one.r_info)) continue;
      const auto bound = *reinterpret_cast<const uintptr_t*>(base + one.r_offset);
      if (bound == 0 || (bound >= begin && bound < end)) continue;
      const char* const name = names + symbols[ELF64_R_SYM(one.r_info)].st_name;
      if (!visitor(context, name, reinterpret_cast<const void*>(bound))) return false;
    }
    return true;
  }
};

}  // namespace

void for_each_bound_call(VisitBound visit, void* context) {
  struct Walk {
    VisitBound visit;
    void* context;
  } walk{visit, context};
  const auto look = [](dl_phdr_info* info, size_t, void* raw) {
    const auto& [visitor, its] = *static_cast<Walk*>(raw);
    const Object object(*info);
    return object.visit(object.of_calls, visitor, its) && object.visit(object.of_data, visitor, its)
               ? 0
               : 1;
  };
  dl_iterate_phdr(look, &walk);
}

}  // namespace rdmalloc::interposed
