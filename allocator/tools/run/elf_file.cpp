#include "allocator/tools/run/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "allocator/tools/child.h"

namespace rdmalloc::cli {
namespace {

// Headers and symbol tables of real programs are far smaller; a file that claims more is damaged.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

class Reader {
 public:
  explicit Reader(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
      size_ = static_cast<uint64_t>(status.st_size);
    }
  }

  bool has(uint64_t offset, uint64_t count) const {
    return offset <= size_ && count <= size_ - offset;
  }

  bool bytes(uint64_t offset, void* to, uint64_t count) const {
    return has(offset, count) &&
           pread(file_.get(), to, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
  }

  template <typename T>
  bool object(uint64_t offset, T* to) const {
    return bytes(offset, to, sizeof *to);
  }

  template <typename T>
  std::vector<T> array(uint64_t offset, uint64_t byte_count) const {
    std::vector<T> out;
    if (byte_count > kMostBytes || !has(offset, byte_count)) return out;
    out.resize(byte_count / sizeof(T));
    if (!bytes(offset, out.data(), out.size() * sizeof(T))) out.clear();
    return out;
  }

 private:
  Descriptor file_;
  uint64_t size_ = 0;
};

std::string string_in(const std::vector<char>& characters, uint64_t offset) {
  if (offset >= characters.size()) return {};
  return {characters.data() + offset,
          strnlen(characters.data() + offset, characters.size() - offset)};
}

// False: the file does not contain the segments that it claims.
bool read_segments(const Reader& file, const Elf64_Ehdr& header, ElfFile* out) {
  const auto segments =
      file.array<Elf64_Phdr>(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && !file.has(segment.p_offset, segment.p_filesz)) return false;
    if (segment.p_type == PT_INTERP) {
      out->interpreter = string_in(file.array<char>(segment.p_offset, segment.p_filesz), 0);
    }
    if (segment.p_type != PT_DYNAMIC) continue;
    for (const Elf64_Dyn& entry : file.array<Elf64_Dyn>(segment.p_offset, segment.p_filesz)) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_SONAME) out->has_soname = true;
    }
  }
  return !segments.empty() && segments.size() == header.e_phnum;
}

bool exports_malloc(const Reader& file, const Elf64_Shdr& symbols, const Elf64_Shdr& names) {
  const auto characters = file.array<char>(names.sh_offset, names.sh_size);
  for (const Elf64_Sym& symbol : file.array<Elf64_Sym>(symbols.sh_offset, symbols.sh_size)) {
    const bool defined = symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
    const bool global = ELF64_ST_BIND(symbol.st_info) != STB_LOCAL;
    if (defined && global && string_in(characters, symbol.st_name) == "malloc") return true;
  }
  return false;
}

std::vector<Elf64_Shdr> sections_of(const Reader& file, const Elf64_Ehdr& header) {
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return {};
  return file.array<Elf64_Shdr>(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
}

void read_sections(const Reader& file, const Elf64_Ehdr& header, ElfFile* out) {
  const auto sections = sections_of(file, header);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    out->defines_malloc = exports_malloc(file, section, sections[section.sh_link]);
  }
}

constexpr bool kLittleEndian = std::endian::native == std::endian::little;

}  // namespace

std::optional<ElfFile> read_elf(const std::string& path) {
  const Reader file(path);
  // The first fields are at the same offsets in both classes.
  Elf32_Ehdr start{};
  if (!file.object(0, &start) || memcmp(start.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  ElfFile out;
  out.bits = start.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  out.little_endian = start.e_ident[EI_DATA] == ELFDATA2LSB;
  const bool same_order = out.little_endian == kLittleEndian;
  out.machine = same_order ? start.e_machine : __builtin_bswap16(start.e_machine);
  out.native = same_order && out.bits == 64;
  if (!out.native) return out;

  Elf64_Ehdr header{};
  if (!file.object(0, &header)) return std::nullopt;
  const bool program = header.e_type == ET_EXEC || header.e_type == ET_DYN;
  out.runnable =
      program && header.e_phentsize == sizeof(Elf64_Phdr) && read_segments(file, header, &out);
  read_sections(file, header, &out);
  return out;
}

bool has_in_data(const std::string& path, const std::string& text) {
  const Reader file(path);
  Elf64_Ehdr header{};
  if (!file.object(0, &header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  for (const Elf64_Shdr& section : sections_of(file, header)) {
    const bool is_constant = section.sh_type == SHT_PROGBITS &&
                             (section.sh_flags & SHF_ALLOC) != 0 &&
                             (section.sh_flags & SHF_EXECINSTR) == 0;
    if (!is_constant) continue;
    const auto bytes = file.array<char>(section.sh_offset, section.sh_size);
    const auto found = std::search(bytes.begin(), bytes.end(), text.begin(), text.end());
    if (found != bytes.end()) return true;
  }
  return false;
}

std::string machine_name(const ElfFile& file) {
  constexpr std::pair<uint16_t, const char*> kNames[] = {
      {EM_386, "i386"},    {EM_X86_64, "x86-64"}, {EM_ARM, "arm"},     {EM_AARCH64, "aarch64"},
      {EM_PPC64, "ppc64"}, {EM_S390, "s390"},     {EM_RISCV, "risc-v"}};
  const std::string bits = std::to_string(file.bits) + "-bit ";
  for (const auto& [machine, name] : kNames) {
    if (machine != file.machine) continue;
    return bits + name + (machine == EM_PPC64 && file.little_endian ? "le" : "");
  }
  return bits + "machine " + std::to_string(file.machine);
}

}  // namespace rdmalloc::cli
