// The classic scenario: a buffer is registered, sent and freed; another is allocated at the same
// address and sent with the remembered key. The peer must receive what the program wrote.
//
//   stale classic        one buffer after the other at one address
//   stale rounds N       N buffers of random sizes, each sent, read or written by the peer
//   stale foreign N      the same with mappings instead of malloc, unmapped or dropped
#include <sys/mman.h>

#include <vector>

#include "tests/guest/keys.h"

namespace {

constexpr size_t kUsual = size_t{4} << 10;
// From this size on glibc maps and unmaps each block, unless it has raised its threshold.
constexpr size_t kLarge = size_t{128} << 10;
constexpr int kLargeDoublings = 3;
constexpr size_t kLargest = kLarge << (kLargeDoublings - 1);
probe::Verdict verdict;

// Random words: different rounds share one only by chance.
void fill(unsigned char* bytes, size_t size, uint64_t seed) {
  probe::Random random(seed);
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
    const uint64_t word = random.next();
    memcpy(bytes + at, &word, sizeof word);
  }
  for (; at < size; ++at) bytes[at] = static_cast<unsigned char>(seed + at);
}

// ---- classic

// Above the largest threshold that glibc can reach: free() unmaps it.
constexpr size_t kUnmapped = size_t{33} << 20;
constexpr size_t kSent = size_t{64} << 10;

unsigned char* filled_buffer(int with) {
  auto* bytes = static_cast<unsigned char*>(malloc(kUnmapped));
  if (bytes == nullptr) probe::refused("out of memory");
  memset(bytes, with, kUnmapped);
  return bytes;
}

void expect(const unsigned char* got, unsigned char wanted, const char* how) {
  for (size_t i = 0; i < kSent; ++i) {
    if (got[i] == wanted) continue;
    verdict.broken("%s: completion success, and byte %zu is '%c' where '%c' was written", how, i,
                   got[i], wanted);
    return;
  }
}

void check(ibv_wc_status status, const unsigned char* got, unsigned char wanted, const char* how) {
  if (status == IBV_WC_SUCCESS) return expect(got, wanted, how);
  verdict.broken("%s: %s", how, ibv_wc_status_str(status));
}

void send_all_ways(guest::RcPair& pair, const guest::PeerBuffer& peer, unsigned char* buffer,
                   const rdm_mr& mr, unsigned char with) {
  unsigned char* middle = buffer + kUnmapped / 2;
  const guest::Piece mine{middle, kSent, mr.lkey};
  check(pair.write(mine, peer.remote(kSent)), peer.bytes(), with, "RDMA WRITE");
  memset(peer.bytes(), 0, kSent);
  check(pair.send(mine, peer.local(kSent)), peer.bytes(), with, "SEND");
  memset(peer.bytes(), 0, kSent);
  check(pair.read(peer.local(kSent), {middle, kSent, mr.rkey}), peer.bytes(), with,
        "the peer's READ");
}

void receive(guest::RcPair& pair, const guest::PeerBuffer& peer, unsigned char* buffer,
             const rdm_mr& mr) {
  memset(peer.bytes(), 'P', kSent);
  check(pair.write(peer.local(kSent), {buffer, kSent, mr.rkey}), buffer, 'P', "the peer's WRITE");
}

void classic() {
  guest::RcPair pair;
  guest::PeerBuffer peer(pair, kSent);
  guest::Keys keys(pair);
  rdm_mr mr{};
  unsigned char* first = filled_buffer('A');
  if (!keys.find(first, kUnmapped, &mr)) return verdict.broken("no key for the first buffer");
  send_all_ways(pair, peer, first, mr, 'A');
  if (verdict.count() != 0) return;
  free(first);
  unsigned char* second = filled_buffer('B');
  if (second != first) probe::skip("the second buffer does not lie at the address of the first");
  if (!keys.find(second, kUnmapped, &mr)) return verdict.broken("no key for the second buffer");
  send_all_ways(pair, peer, second, mr, 'B');
  receive(pair, peer, second, mr);
}

// ---- rounds

struct Object {
  unsigned char* bytes = nullptr;
  size_t size = 0;
};

class Rounds {
 public:
  explicit Rounds(bool foreign) : foreign_(foreign) {}

  void run(uint64_t rounds) {
    std::vector<Object> live(kLive);
    for (uint64_t round = 1; round <= rounds; ++round) {
      Object& object = live[random_.below(kLive)];
      renew(object);
      if (object.bytes == nullptr) probe::refused("out of memory");
      transfer(object, round);
    }
    for (const Object& object : live) give_back(object);
    printf("%lu rounds, %lu bytes verified, %lu wrong\n", rounds, bytes_, verdict.count());
  }

 private:
  // This many blocks are live between a free and the next malloc of that size, so that pages come
  // and go.
  static constexpr uint64_t kLive = 64;

  void give_back(const Object& object) const {
    if (!foreign_) return free(object.bytes);
    if (object.bytes != nullptr) munmap(object.bytes, object.size);
  }

  void renew(Object& object) {
    if (foreign_ && object.bytes != nullptr && random_.below(4) == 0) {
      madvise(object.bytes, object.size, MADV_DONTNEED);
      return;
    }
    give_back(object);
    object.size = size();
    if (!foreign_) {
      object.bytes = static_cast<unsigned char*>(malloc(object.size));
      return;
    }
    void* const mapped =
        mmap(nullptr, object.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    object.bytes = mapped == MAP_FAILED ? nullptr : static_cast<unsigned char*>(mapped);
  }

  bool take_key(const Object& object, rdm_mr* mr) {
    return foreign_ ? keys_.get(object.bytes, object.size, mr)
                    : keys_.find(object.bytes, object.size, mr);
  }

  // Mostly small, because emulation is slow. As in real programs, large blocks come in few sizes.
  size_t size() {
    const uint64_t kind = random_.below(128);
    if (kind == 0) return kLarge << random_.below(kLargeDoublings);
    return random_.size_between(8, kind < 8 ? 16 * kUsual : kUsual);
  }

  void transfer(const Object& object, uint64_t round) {
    rdm_mr mr{};
    if (!take_key(object, &mr)) {
      return verdict.broken("round %lu: no key for %zu bytes", round, object.size);
    }
    const size_t size = object.size;
    const guest::Piece mine{object.bytes, size, mr.lkey};
    const guest::Piece exposed{object.bytes, size, mr.rkey};
    const auto way = static_cast<unsigned>(random_.below(4));
    const bool peer_writes = way == 3;
    fill(peer_writes ? peer_.bytes() : object.bytes, size, round);
    memset(peer_writes ? object.bytes : peer_.bytes(), 0, size);
    const ibv_wc_status status = way == 0   ? pair_.write(mine, peer_.remote(size))
                                 : way == 1 ? pair_.send(mine, peer_.local(size))
                                 : way == 2 ? pair_.read(peer_.local(size), exposed)
                                            : pair_.write(peer_.local(size), exposed);
    bytes_ += size;
    if (foreign_ && !keys_.put(mr)) verdict.broken("round %lu: rdm_put refuses", round);
    if (status != IBV_WC_SUCCESS) {
      verdict.broken("round %lu: %s: %s", round, kWays[way], ibv_wc_status_str(status));
    } else if (memcmp(object.bytes, peer_.bytes(), size) != 0) {
      verdict.broken("round %lu: %s of %zu bytes: the peer's differ", round, kWays[way], size);
    }
  }

  static constexpr const char* kWays[] = {"RDMA WRITE", "SEND", "the peer's READ",
                                          "the peer's WRITE"};
  const bool foreign_;
  probe::Random random_{1};
  guest::RcPair pair_;
  guest::PeerBuffer peer_{pair_, kLargest};
  guest::Keys keys_{pair_};
  uint64_t bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "classic") == 0) {
    classic();
  } else {
    const bool foreign = argc > 1 && strcmp(argv[1], "foreign") == 0;
    Rounds(foreign).run(probe::argument(argc, argv, 2, 1000));
  }
  return verdict.status();
}
