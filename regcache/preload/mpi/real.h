// The process's MPI library, behind the functions that the shim interposes.
//
// Declared without mpi.h, so that one binary serves every MPI: an MPI_Aint has the size of a
// pointer, and handles are pointers in Open MPI and ints in MPICH, both of which are passed in a
// register like a uintptr_t. For an int the upper half of the register is undefined: see
// MpiHandles::of().
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::mpi {

using Handle = uintptr_t;
using Count = ptrdiff_t;  // MPI_Aint, and MPI_Count

constexpr Handle kPage = 4096;  // no object lies below it

// Any error code will do for the latter: each MPI has its own, and none is loaded.
constexpr int kSuccess = 0;
constexpr int kNoMpi = 1;

enum class Kind {
  kOther,    // its handles are not known: everything is passed on
  kOpenMpi,  // handles are pointers
  kMpich,    // and MPIs with its interface: handles are ints
};

// The handles of an MPI library, and its predefined ones.
struct MpiHandles {
  Kind kind = Kind::kOther;

  // Open MPI only.
  Handle (*info_f2c)(int) = nullptr;
  Handle (*comm_f2c)(int) = nullptr;
  Handle (*type_f2c)(int) = nullptr;
  Handle (*op_f2c)(int) = nullptr;

  // Of an MPI whose kind is known and only while it runs: Open MPI aborts a program that asks
  // before.
  Handle null_info() const;
  Handle comm_self() const;
  Handle comm_world() const;
  Handle int_type() const;
  Handle min_op() const;
  int no_memory() const;  // MPI_ERR_NO_MEM

  Handle mask() const { return kind == Kind::kMpich ? UINT32_MAX : UINTPTR_MAX; }
  // A handle argument as the caller meant it.
  Handle of(Handle argument) const { return argument & mask(); }
  // Whether the handle can be that of a non-null MPI_Info: the kind of object is part of MPICH's
  // handles, and small numbers are not pointers. Other handles are left to the library.
  bool is_info(Handle argument) const {
    constexpr Handle kObjects = 0x3c000000;
    return kind == Kind::kMpich ? (argument & kObjects) == (null_info() & kObjects)
                                : argument > kPage;
  }
  // The handle that `handle` points to.
  Handle at(const void* handle) const {
    return kind == Kind::kMpich ? *static_cast<const uint32_t*>(handle)
                                : *static_cast<const Handle*>(handle);
  }
};

using CopyAttribute = int(Handle, int, void*, void*, void*, int*);
using DeleteAttribute = int(Handle, int, void*, void*);

// A profiling tool between the program and the library: the next object after the shim that defines
// these names. It gets the program's calls, and calls the shim through PMPI_*. Null: there is none.
struct MpiTool {
  int (*alloc_mem)(Count, Handle, void*) = nullptr;
  int (*free_mem)(void*) = nullptr;
  int (*win_allocate)(Count, int, Handle, Handle, void*, void*) = nullptr;
  int (*win_allocate_c)(Count, Count, Handle, Handle, void*, void*) = nullptr;
  int (*win_free)(void*) = nullptr;
};

struct RealMpi {
  // PMPI_*, of the library itself.
  int (*alloc_mem)(Count, Handle, void*) = nullptr;
  int (*free_mem)(void*) = nullptr;
  int (*win_allocate)(Count, int, Handle, Handle, void*, void*) = nullptr;
  int (*win_allocate_c)(Count, Count, Handle, Handle, void*, void*) = nullptr;  // may be null
  int (*win_create)(void*, Count, int, Handle, Handle, void*) = nullptr;
  int (*win_create_c)(void*, Count, Count, Handle, Handle, void*) = nullptr;  // may be null
  int (*win_free)(void*) = nullptr;
  int (*initialized)(int*) = nullptr;
  int (*finalized)(int*) = nullptr;
  int (*info_get)(Handle, const char*, int, char*, int*) = nullptr;
  int (*comm_create_keyval)(CopyAttribute*, DeleteAttribute*, int*, void*) = nullptr;
  int (*comm_free_keyval)(int*) = nullptr;
  int (*comm_set_attr)(Handle, int, void*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_call_errhandler)(Handle, int) = nullptr;
  int (*allreduce)(const void*, void*, int, Handle, Handle, Handle) = nullptr;

  MpiHandles handles;
  MpiTool tool;
};

// Found at the first call, so that a program without MPI pays nothing: in the global scope, else in
// a library that the program loaded for itself, as Python does. Null when there is none. Any
// thread.
const RealMpi* real_mpi();

}  // namespace rdmalloc::mpi
