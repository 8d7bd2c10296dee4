#include "regcache/preload/verbs/callers.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <string.h>

#include <atomic>
#include <cstddef>

// The header's macros choose between the functions.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace rdmalloc::shim {
namespace {

// An object as it is currently loaded.
struct Object {
  const link_map* map = nullptr;
  uintptr_t begin = 0;  // start of its mapping; if unknown, the range covers all addresses
  uintptr_t end = 0;
};

// This is most of the cost of a hit, so avoid dladdr1() where possible: it searches all of the
// object's symbols.
bool find_object(const void* address, Object* out) {
#if __GLIBC_PREREQ(2, 35)
  dl_find_object found{};
  if (_dl_find_object(const_cast<void*>(address), &found) != 0) return false;
  *out = {found.dlfo_link_map, reinterpret_cast<uintptr_t>(found.dlfo_map_start),
          reinterpret_cast<uintptr_t>(found.dlfo_map_end)};
#else
  Dl_info info{};
  void* map = nullptr;
  if (dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0) return false;
  *out = {static_cast<const link_map*>(map), 0, UINTPTR_MAX};
#endif
  return out->map != nullptr && out->map->l_ld != nullptr;
}

// Covers where the object is and its whole dynamic section: after dlclose(), another object may be
// loaded at the same address.
uint64_t fingerprint(const Object& object, const Call& call) {
  uint64_t sum = reinterpret_cast<uintptr_t>(object.map->l_ld) * 0x9e3779b97f4a7c15;
  sum += reinterpret_cast<uintptr_t>(call.function) * 0xc2b2ae3d27d4eb4f;
  uint64_t odd = 0xff51afd7ed558ccd;  // differs by entry, so that the multiplications are
                                      // independent
  for (const ElfW(Dyn)* it = object.map->l_ld; it->d_tag != DT_NULL; ++it) {
    sum += (it->d_un.d_val ^ static_cast<uint64_t>(it->d_tag) << 48) * odd;
    odd += 0x9e3779b97f4a7c16;
  }
  return sum ^ sum >> 29;
}

// The relocation tables named in the dynamic section. Those for lazy binding are separate.
struct Relocations {
  const char* strings = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const ElfW(Rela) * first[2] = {};
  size_t count[2] = {};
};

Relocations relocations_of(const link_map* map) {
  Relocations out;
  size_t size[2] = {};
  for (const ElfW(Dyn)* it = map->l_ld; it->d_tag != DT_NULL; ++it) {
    // On most machines the dynamic linker has already converted these to addresses.
    const uintptr_t value = it->d_un.d_ptr;
    const uintptr_t at = value < map->l_addr ? value + map->l_addr : value;
    if (it->d_tag == DT_STRTAB) out.strings = reinterpret_cast<const char*>(at);
    if (it->d_tag == DT_SYMTAB) out.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (it->d_tag == DT_RELA) out.first[0] = reinterpret_cast<const ElfW(Rela)*>(at);
    if (it->d_tag == DT_JMPREL) out.first[1] = reinterpret_cast<const ElfW(Rela)*>(at);
    if (it->d_tag == DT_RELASZ) size[0] = value;
    if (it->d_tag == DT_PLTRELSZ) size[1] = value;
  }
  for (int i = 0; i < 2; ++i) {
    if (out.first[i] != nullptr) out.count[i] = size[i] / sizeof(ElfW(Rela));
  }
  return out;
}

// A name that an object may import, more than once and in several versions.
struct Import {
  const char* name;
  const void* ours;
  bool elsewhere = false;  // bound to another library's function
  bool here = false;       // bound to ours, or not bound yet, which leads into the object itself
};

void note(const Object& object, const ElfW(Rela) & relocation, Import* import) {
  const uintptr_t slot = object.map->l_addr + relocation.r_offset;
  if (slot % alignof(uintptr_t) != 0 || relocation.r_addend != 0) return;
  const auto bound = __atomic_load_n(reinterpret_cast<const uintptr_t*>(slot), __ATOMIC_RELAXED);
  const bool is_here = bound == reinterpret_cast<uintptr_t>(import->ours) ||
                       bound - object.begin < object.end - object.begin;
  (is_here ? import->here : import->elsewhere) = true;
}

void note_all(const Object& object, Import* imports, size_t count) {
  const Relocations all = relocations_of(object.map);
  if (all.strings == nullptr || all.symbols == nullptr) return;
  for (int table = 0; table < 2; ++table) {
    for (size_t i = 0; i < all.count[table]; ++i) {
      const ElfW(Rela)& relocation = all.first[table][i];
      const ElfW(Sym)& symbol = all.symbols[ELF64_R_SYM(relocation.r_info)];
      const char* name = all.strings + symbol.st_name;
      if (symbol.st_shndx != SHN_UNDEF || strncmp(name, "ibv_", 4) != 0) continue;
      for (size_t k = 0; k < count; ++k) {
        if (strcmp(name, imports[k].name) == 0) note(object, relocation, &imports[k]);
      }
    }
  }
}

// Runs once per object, because large ones have many relocations. With lazy binding, the function
// that the object has just called is bound by now; all of its names lead where that one does.
bool imports_both(const Object& object, const Call& call) {
  Import imports[] = {{"ibv_dereg_mr", reinterpret_cast<const void*>(&ibv_dereg_mr)},
                      {"ibv_reg_mr", reinterpret_cast<const void*>(&ibv_reg_mr)},
                      {"ibv_reg_mr_iova", reinterpret_cast<const void*>(&ibv_reg_mr_iova)},
                      {"ibv_reg_mr_iova2", reinterpret_cast<const void*>(&ibv_reg_mr_iova2)}};
  note_all(object, imports, sizeof imports / sizeof *imports);
  bool called = false;
  for (const Import& it : imports) {
    if (it.elsewhere && !it.here) return false;
    if (it.ours == call.function) called = it.here;
  }
  return called && imports[0].here;
}

// Cached answers: a fingerprint with the answer in its lowest bit. One word each, so that reads and
// replacements are atomic.
constexpr size_t kAnswers = 256;
constinit std::atomic<uint64_t> answers[kAnswers] = {};

}  // namespace

bool deregisters_here(const Call& call) {
  Object object;
  if (!find_object(call.caller, &object)) return false;
  const uint64_t its = fingerprint(object, call) | 1;
  std::atomic<uint64_t>& known = answers[(its >> 8) % kAnswers];
  const uint64_t word = known.load(std::memory_order_relaxed);
  if ((word | 1) == its && word != 0) return (word & 1) != 0;
  const bool yes = imports_both(object, call);
  known.store(yes ? its : its & ~uint64_t{1}, std::memory_order_relaxed);
  return yes;
}

bool is_of_ucx(const Call& call) {
  constexpr char kTransport[] = "libuct";
  Object object;
  if (!find_object(call.caller, &object) || object.map->l_name == nullptr) return false;
  const char* const slash = strrchr(object.map->l_name, '/');
  const char* const name = slash != nullptr ? slash + 1 : object.map->l_name;
  return strncmp(name, kTransport, sizeof kTransport - 1) == 0;
}

}  // namespace rdmalloc::shim
