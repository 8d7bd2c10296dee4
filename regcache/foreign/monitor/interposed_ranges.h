// Which memory a call changes, judged by its arguments: two ranges, often empty. For the interposed
// calls; may run inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"
#include "regcache/foreign/monitor/changes.h"

namespace rdmalloc::interposed {

struct Affected {
  const void* base = nullptr;
  size_t length = 0;
  const void* target = nullptr;
  size_t target_length = 0;
};

Affected of_mremap(const void* old, size_t length, size_t new_length, int flags,
                   const void* target);
Affected of_brk(uintptr_t end);
Affected of_shmat(int id, const void* address, int flags);
Affected of_shmdt(const void* address);

// Bytes that mmap() replaces: 0 without MAP_FIXED.
size_t replaced_by_mmap(const void* address, size_t length, int flags, int fd);

// True for all advice except what is known to leave the pages where they are.
bool is_dropping(int advice);

// Bytes that shmdt() detaches there. Its argument says where but not how much, so this extends as
// far as mappings of the same segment. SIZE_MAX if there are none.
size_t attached_length(const void* address);

// Bytes of a System V segment; SIZE_MAX if it cannot be found out.
size_t segment_size(int id);

// Whether anybody needs to know.
inline bool is_heard() { return changes.sink() != nullptr; }

inline uintptr_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

inline const void* pointer_to(uintptr_t address) { return reinterpret_cast<const void*>(address); }

// The length rounded up to whole pages, as the kernel does; 0 if that wraps around, which the
// kernel refuses.
inline size_t in_pages(size_t length) { return os::page_ceil(length); }

}  // namespace rdmalloc::interposed
