// fork with registered memory: the child uses all of its heap, the parent's registrations keep
// reading the parent's pages, and a domain that the child opens reads the child's.
//
//   forks                the parent opens its domain, and forks
//   forks init           ibv_fork_init() was called first, as UCX does
//   Without the library, a buffer from malloc is registered with ibv_reg_mr.

#include <vector>

#include "tests/guest/keys.h"

namespace {

constexpr size_t kObjects = 120;
constexpr size_t kLargest = size_t{256} << 10;
probe::Verdict verdict;

struct Object {
  unsigned char* bytes;
  size_t size;
};

std::vector<Object> make_objects() {
  probe::Random random(5);
  std::vector<Object> made(kObjects);
  for (Object& object : made) {
    object.size = random.size_between(16, kLargest);
    object.bytes = static_cast<unsigned char*>(malloc(object.size));
    if (object.bytes == nullptr) probe::refused("out of memory");
  }
  return made;
}

void write_all(const std::vector<Object>& all, int with) {
  for (const Object& object : all) memset(object.bytes, with, object.size);
}

void check_all(const std::vector<Object>& all, unsigned char wanted, const char* who) {
  for (const Object& object : all) {
    for (size_t i = 0; i < object.size; ++i) {
      if (object.bytes[i] == wanted) continue;
      return verdict.broken("%s: '%c' where '%c' was written", who, object.bytes[i], wanted);
    }
  }
}

// Checks what the device reads from each object.
void check_device(guest::RcPair& pair, guest::Keys& keys, const std::vector<Object>& all,
                  unsigned char wanted, const char* who) {
  guest::PeerBuffer peer(pair, kLargest);
  for (const Object& object : all) {
    rdm_mr mr{};
    if (!keys.find(object.bytes, object.size, &mr)) return verdict.broken("%s: no key", who);
    const guest::Piece mine{object.bytes, object.size, mr.lkey};
    const ibv_wc_status status = pair.write(mine, peer.remote(object.size));
    if (status != IBV_WC_SUCCESS) {
      return verdict.broken("%s: %s", who, ibv_wc_status_str(status));
    }
    for (size_t i = 0; i < object.size; ++i) {
      if (peer.bytes()[i] == wanted) continue;
      return verdict.broken("%s: the device sent '%c' where '%c' was written", who, peer.bytes()[i],
                            wanted);
    }
  }
}

// Checks that a child inherits every range of the heap, which is all of the program's memory.
void check_inheritance() {
  FILE* maps = fopen("/proc/self/smaps", "re");
  char line[512];
  bool ours = false;
  while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr) {
    unsigned long start = 0;
    unsigned long end = 0;
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
      ours = probe::library().owns(reinterpret_cast<void*>(start)) != 0;
    } else if (ours && strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc") != nullptr) {
      verdict.broken("a part of the heap is kept from children (MADV_DONTFORK)");
    }
  }
  if (maps != nullptr) fclose(maps);
}

// A child must not use its parent's registrations, and may make its own.
void own_domain(const guest::Keys& parents, const std::vector<Object>& all) {
  rdm_mr mr{};
  for (const Object& object : all) {
    const int status = guest::domains().lookup(parents.domain(), object.bytes, object.size, &mr);
    if (status != RDM_NOT_REGISTERED) {
      return verdict.broken("child: lookup in the parent's domain says %d", status);
    }
  }
  guest::RcPair pair;
  guest::Keys keys(pair);
  // Memory that the child allocates itself is pinned and can be registered; inherited memory is
  // not.
  std::vector<Object> mine;
  for (size_t i = 0; i < 4; ++i) {
    mine.push_back(
        {static_cast<unsigned char*>(guest::domains().alloc(kLargest, 0, RDM_EXPOSED)), kLargest});
    if (mine.back().bytes == nullptr) return verdict.broken("child: no exposed memory");
  }
  write_all(mine, 'c');
  check_device(pair, keys, mine, 'c', "child's own domain");
}

int child(const guest::Keys& parents, const std::vector<Object>& all, int parent_has_written) {
  check_all(all, 'p', "child, first");
  write_all(all, 'c');
  char byte = 0;
  if (read(parent_has_written, &byte, 1) != 1) verdict.broken("child: the parent is gone");
  check_all(all, 'c', "child, after the parent wrote");
  for (const Object& object : all) free(object.bytes);
  write_all(make_objects(), 'n');
  if (probe::library().loaded()) own_domain(parents, make_objects());
  return verdict.status();
}

void fork_once(guest::RcPair& pair, guest::Keys& keys, const std::vector<Object>& all) {
  write_all(all, 'p');
  check_device(pair, keys, all, 'p', "parent, before the fork");
  if (probe::library().loaded()) check_inheritance();
  int ends[2];
  if (pipe(ends) != 0) probe::skip("no pipe");
  const pid_t pid = probe::start_child([&] { return child(keys, all, ends[0]); });
  write_all(all, 'q');
  check_device(pair, keys, all, 'q', "parent, after it wrote");
  (void)!write(ends[1], "w", 1);
  verdict.expect_good_end("the child", probe::end_of(pid));
  close(ends[0]);
  close(ends[1]);
  check_all(all, 'q', "parent, after the child wrote");
  check_device(pair, keys, all, 'q', "parent, after the child's end");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "init") == 0 && ibv_fork_init() != 0) {
    probe::skip("ibv_fork_init failed");
  }
  guest::RcPair pair;
  guest::Keys keys(pair);
  std::vector<Object> all = make_objects();
  fork_once(pair, keys, all);
  // Once more, with memory allocated after the domain was opened and after a fork.
  const std::vector<Object> more = make_objects();
  all.insert(all.end(), more.begin(), more.end());
  fork_once(pair, keys, all);
  return verdict.status();
}
