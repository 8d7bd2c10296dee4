#include "allocator/limits/holders.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "allocator/os/file.h"
#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

constexpr size_t kTold = 3;

// Process names may hold any byte; only printable ones go into a message.
void copy_name(os::Text from, char* out, size_t size) {
  size_t length = 0;
  for (; length < from.size && length < size - 1; ++length) {
    const char c = from.data[length];
    out[length] = c < ' ' || c > '~' ? '?' : c;
  }
  out[length] = '\0';
}

// False: the process is gone, or belongs to another user.
bool read_holder(const char* path, uint64_t user, Holder* out) {
  constexpr size_t kNameLength = sizeof "Name:";
  bool is_users = false;
  const bool opened = os::for_each_line(path, [&](os::Text line) {
    uint64_t number = 0;
    if (line.starts_with(os::text("Name:\t"))) {
      copy_name(line.drop(kNameLength), out->name, sizeof out->name);
    } else if (os::parse_field(line, "Uid:", &number)) {
      is_users = number == user;
    } else if (os::parse_field(line, "VmLck:", &number)) {
      out->locked = number << 10;
    } else if (os::parse_field(line, "VmPin:", &number)) {
      out->pinned = number << 10;
      return false;
    }
    return true;
  });
  return opened && is_users;
}

// Inserts into the list of the largest holders; returns its new length.
size_t insert(const Holder& one, Holder* sorted, size_t count, size_t most) {
  const auto weight = [](const Holder& of) { return of.pinned + of.locked; };
  size_t at = count;
  while (at > 0 && weight(sorted[at - 1]) < weight(one)) --at;
  if (at == most) return count;
  const size_t kept = count < most ? count : most - 1;
  for (size_t i = kept; i > at; --i) sorted[i] = sorted[i - 1];
  sorted[at] = one;
  return kept + 1;
}

void say_limits(const rdm_stats& books, Message* out) {
  const os::LockLimit limit = os::lock_limit();
  out->add("the memlock limit is ").add_size(limit.soft);
  if (limit.unlimited_by_right) out->add(", which does not bind this process (CAP_IPC_LOCK)");
  out->add(", the budget ").add_size(books.budget_bytes).add(" (");
  switch (books.budget_limited_by) {
    case RDM_LIMITED_BY_MEMLOCK:
      out->add("by the memlock limit)");
      break;
    case RDM_LIMITED_BY_AVAILABLE:
      out->add("by the memory that is available)");
      break;
    case RDM_LIMITED_BY_NODE:
      out->add("by RDMALLOC_NODE_CAP)");
      break;
    default:
      out->add("by RDMALLOC_CAP)");
      break;
  }
}

}  // namespace

size_t find_holders(const char* proc, uint64_t user, uint64_t self, Holder* out, size_t most) {
  DIR* const folder = opendir(proc);
  if (folder == nullptr) return 0;
  size_t count = 0;
  while (const dirent* entry = readdir(folder)) {
    Holder one;
    os::Text rest;
    const os::Text name = os::text(entry->d_name);
    if (!os::parse_decimal(name, &one.process, &rest) || rest.size != 0) continue;
    if (one.process == self) continue;
    Message path;
    path.add(proc).add("/").add(entry->d_name).add("/status");
    char text[512];
    path.copy_to(text, sizeof text);
    if (!read_holder(text, user, &one) || one.pinned + one.locked == 0) continue;
    count = insert(one, out, count, most);
  }
  closedir(folder);
  return count;
}

void say_who_holds_memory(const rdm_stats& books, Message* out) {
  say_limits(books, out);
  out->add("; this process holds ").add_size(books.held_bytes).add(", ");
  out->add_size(books.pinned_bytes).add(" of it pinned and ").add_size(books.overflow_bytes);
  out->add(" beyond the budget, and has ").add_size(books.registered_bytes).add(" registered in ");
  out->add_number(books.domains).add(books.domains == 1 ? " domain" : " domains");
  Holder others[kTold];
  const size_t count =
      find_holders("/proc", getuid(), static_cast<uint64_t>(getpid()), others, kTold);
  for (size_t i = 0; i < count; ++i) {
    out->add("; process ").add_number(others[i].process).add(" (").add(others[i].name);
    out->add(") of the same user has pinned ").add_size(others[i].pinned);
    out->add(" and locked ").add_size(others[i].locked);
  }
  if (count == 0) out->add("; no other process of this user has pinned or locked any");
  out->add("; ask for less, or raise the limit (ulimit -l; LimitMEMLOCK= of a service)");
}

}  // namespace rdmalloc
