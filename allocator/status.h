// The errors of the inner layers, as values. Outputs are set only on kOk.
#pragma once

#include <cstdint>

namespace rdmalloc {

enum class [[nodiscard]] Status : uint8_t{
    kOk,
    kInvalid,      // an argument is out of range
    kNoMemory,     // the kernel, a limit or the window has no more
    kOutOfBudget,  // memory exists, but may not be pinned
    kUnsupported,  // this kernel or build cannot do it
    kRefused,      // the kernel forbids it to this process
};

constexpr bool ok(Status status) { return status == Status::kOk; }

}  // namespace rdmalloc
