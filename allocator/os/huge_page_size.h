// The sizes of the kernel's huge pages: 2 MiB on x86-64; on AArch64 2, 32 or 512 MiB where base
// pages have 4, 16 or 64 KiB, and other sizes in pools of hugetlb pages. Inside malloc; while the
// process is confined (confinement.h) they answer what they answered before.
#pragma once

#include <cstddef>

namespace rdmalloc::os {

// Of a transparent huge page: what one entry of a page table's second level maps.
size_t transparent_huge_page_size();

// Of the pool that open() takes hugetlb pages from: the kernel's default size or, if that is above
// kLargestHugetlb, the largest one below.
inline constexpr size_t kLargestHugetlb = size_t{32} << 20;
size_t hugetlb_page_size();

// Of a mapping with MAP_HUGETLB that names no size. Reads a file at each call.
size_t default_hugetlb_page_size();

// The least size above `bytes` of which the kernel has a pool; 0: there is none.
size_t next_hugetlb_page_size(size_t bytes);

}  // namespace rdmalloc::os
