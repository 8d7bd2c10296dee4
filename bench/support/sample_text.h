#pragma once

#include <cstddef>
#include <string>

namespace rdmalloc::bench {

// Writes a file of `bytes` bytes that reads like a log: words of uneven frequency, numbers, lines
// that partly repeat others. The same in every run, and compressible to about a quarter. False if
// it cannot be written.
bool write_sample_text(const std::string& path, size_t bytes);

}  // namespace rdmalloc::bench
