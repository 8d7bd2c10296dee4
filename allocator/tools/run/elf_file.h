// What `run` must know about a file before it is executed. Everything read from the file is checked
// against its size: the user may have named anything. Not libelf: it would save some sixty lines,
// but be one more package to install wherever the command is built or runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rdmalloc::cli {

struct ElfFile {
  uint16_t machine = 0;
  uint8_t bits = 0;  // 32 or 64
  bool little_endian = true;
  bool native = false;          // same class and byte order as this command: the rest is read
  bool runnable = false;        // has segments to load, all within the file
  std::string interpreter;      // the dynamic loader it asks for; empty: none
  bool has_soname = false;      // a shared object, such as the dynamic loader itself
  bool defines_malloc = false;  // exports a malloc of its own
};

// Nothing when the file is not ELF, or is cut short. Does not throw.
std::optional<ElfFile> read_elf(const std::string& path);

// True if the constants of an ELF file of this machine contain the text: not what it is linked
// with, but what it may pass to dlopen.
bool has_in_data(const std::string& path, const std::string& text);

// "x86-64", "aarch64"; "machine 123" when it has no common name.
std::string machine_name(const ElfFile& file);

}  // namespace rdmalloc::cli
