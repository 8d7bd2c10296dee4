// Files that become part of the command when it is built.
#pragma once

#include <string_view>

// Defines a function `name` that returns the contents of `file`. The assembler reads it: string
// literals of generated C++ would need a generator, and take a compiler seconds for a large file.
#define EMBED(name, file)                                                              \
  __asm__(                                                                             \
      ".pushsection .rodata\n"                                                         \
      ".global rdmalloc_asset_" #name "\nrdmalloc_asset_" #name ":\n.incbin \"" file   \
      "\"\n"                                                                           \
      ".global rdmalloc_asset_" #name "_end\nrdmalloc_asset_" #name                    \
      "_end:\n.byte 0\n"                                                               \
      ".popsection\n");                                                                \
  extern "C" const char rdmalloc_asset_##name[], rdmalloc_asset_##name##_end[];        \
  std::string_view name() {                                                            \
    return {rdmalloc_asset_##name,                                                     \
            static_cast<size_t>(rdmalloc_asset_##name##_end - rdmalloc_asset_##name)}; \
  }
