// Ranks that all send to each other at once, through one segment: every message arrives exactly
// once, complete, and in the order in which its thread sent it.
//
//   shm_ranks LAYOUT PROCS MESSAGES THREADS [SEED]   starts that many ranks
//   shm_ranks rank NAME RANK LAYOUT PROCS MESSAGES THREADS SEED
//   shm_ranks mpi NAME LAYOUT MESSAGES               is one rank of those that mpirun started
//
// A SEED makes queues, lists, boxes and limits as small as possible, and odd.
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "tests/integration/regcache/shm/shm_launch.h"

using namespace shm_test;

namespace {

struct Job {
  unsigned layout, procs, messages, threads, seed;
};

// Every rank computes the same plan.
rdm_shm_plan_options plan_of(const Job& job) {
  rdm_shm_plan_options plan = plan_for(job.procs, job.layout);
  if (job.threads > 1) plan.flags = RDM_SHM_MULTITHREADED;
  plan.queue_entries = 8;  // often full
  plan.cacheline = RDM_SHM_CACHELINE_SIZE;
  plan.eager_limit = RDM_SHM_EAGER_LIMIT;
  plan.chunk_size = RDM_SHM_CHUNK_SIZE;
  if (job.seed == 0) return plan;
  std::mt19937 random(job.seed);
  const auto below = [&random](unsigned bound) { return static_cast<unsigned>(random() % bound); };
  plan.queue_entries = 2U << below(3);
  plan.cacheline = size_t{64} << below(3);
  plan.eager_limit = 1 + below(5000);
  plan.chunk_size = 1 + below(20'000);  // sometimes less than the eager limit
  plan.eager_fragments = 1 + below(3);
  plan.max_fragments = 1 + below(2);
  plan.boxes = 1 + below(3);
  plan.box_size = plan.cacheline << (1 + below(2));
  return plan;
}

uint32_t mixed(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t hash = a * 2654435761U ^ b * 2246822519U ^ c * 3266489917U;
  hash ^= hash >> 15;
  hash *= 2246822519U;
  return hash ^ hash >> 13;
}

// A message's contents depend on its sender, receiver and number: sizes around all limits.
class Text {
 public:
  Text(const rdm_shm_plan_options& plan, unsigned from, unsigned to, uint32_t number)
      : seed_(mixed(from, to, number)) {
    const size_t slot = plan.cacheline - 16;  // the most that a fast box carries in one piece
    const size_t eager = plan.eager_limit;
    const size_t sizes[] = {0, 1, 8, slot - 1, slot, slot + 1, 200, 1000, eager - 1, eager};
    length_ = sizes[seed_ % 10] < eager ? sizes[seed_ % 10] : eager;
    const bool has_large = plan.layout != RDM_SHM_MPSC && plan.chunk_size > eager;
    if (has_large && seed_ % 64 == 0) length_ = seed_ % 128 == 0 ? plan.chunk_size : eager + 1;
  }
  size_t length() const { return length_; }
  bool is_copied() const { return (seed_ & 0x40000) != 0; }
  unsigned char byte(size_t i) const { return static_cast<unsigned char>(seed_ + i * 7); }
  void write(unsigned char* to) const {
    for (size_t i = 0; i < length_; ++i) to[i] = byte(i);
  }
  bool is(const unsigned char* bytes) const {
    for (size_t i = 0; i < length_; ++i) {
      if (bytes[i] != byte(i)) return false;
    }
    return true;
  }

 private:
  uint32_t seed_;
  size_t length_ = 0;
};

class Rank {
 public:
  Rank(rdm_shm* shm, const Job& job)
      : shm_(shm),
        job_(job),
        plan_(plan_of(job)),
        me_(rdm_shm_rank(shm)),
        expected_(size_t{job.procs} * job.threads) {}

  void run() {
    std::vector<std::thread> senders;
    for (unsigned thread = 1; thread < job_.threads; ++thread) {
      senders.emplace_back([this, thread] { send_all(thread); });
    }
    send_all(0);
    while (!is_done()) receive_or_wait();
    for (std::thread& sender : senders) sender.join();
  }

 private:
  // A sender that finds no room receives, otherwise all would wait for each other.
  void send_all(unsigned thread) {
    for (uint32_t number = 0; number < job_.messages; ++number) {
      for (unsigned step = 1; step < job_.procs; ++step) {
        const unsigned to = (me_ + step) % job_.procs;
        while (!try_send(thread, to, number)) receive_or_wait();
      }
    }
  }

  bool try_send(unsigned thread, unsigned to, uint32_t number) {
    const Text text(plan_, me_, to, number);
    const uint64_t tag = uint64_t{thread} << 32 | number;
    int status = RDM_OK;
    if (text.is_copied()) {
      unsigned char bytes[32768];
      text.write(bytes);
      status = rdm_shm_send(shm_, to, tag, bytes, text.length());
    } else {
      rdm_shm_fragment fragment;
      status = rdm_shm_fragment_get(shm_, text.length(), &fragment);
      if (status == RDM_OK) {
        text.write(static_cast<unsigned char*>(fragment.data));
        fragment.length = text.length();
        fragment.tag = tag;
        status = rdm_shm_post(shm_, to, &fragment);
        if (status != RDM_OK) rdm_shm_fragment_put(shm_, &fragment);
      }
    }
    if (status != RDM_OK && status != RDM_AGAIN) {
      broken("rank %u: sending to %u: %s", me_, to, rdm_shm_last_error());
    }
    return status == RDM_OK;
  }

  void receive_or_wait() {
    int status = RDM_AGAIN;
    {
      // So that messages are checked in the order in which they were received.
      const std::lock_guard<std::mutex> lock(receiving_);
      rdm_shm_message message;
      status = rdm_shm_poll(shm_, &message);
      if (status == RDM_OK) return check(message);
    }
    if (status == RDM_AGAIN) status = rdm_shm_wait(shm_, 100);
    if (status == RDM_PEER_DIED) {
      // The others may have left because another thread here has just received everything.
      const std::lock_guard<std::mutex> lock(receiving_);
      if (is_done()) return;
    }
    if (status != RDM_OK && status != RDM_AGAIN) {
      broken("rank %u: waiting: %s", me_, rdm_shm_last_error());
    }
  }

  void check(const rdm_shm_message& message) {
    const auto thread = static_cast<unsigned>(message.tag >> 32);
    const auto number = static_cast<uint32_t>(message.tag);
    if (message.from >= job_.procs || message.from == me_ || thread >= job_.threads) {
      broken("rank %u: a message of nobody's: from %u, thread %u", me_, message.from, thread);
    }
    uint32_t& expected = expected_[message.from * job_.threads + thread];
    if (number != expected) {
      broken("rank %u: message %u of rank %u, instead of %u", me_, number, message.from, expected);
    }
    ++expected;
    const Text text(plan_, message.from, me_, number);
    if (message.length != text.length() ||
        !text.is(static_cast<const unsigned char*>(message.data))) {
      broken("rank %u: message %u of rank %u is wrong, of %zu bytes", me_, number, message.from,
             message.length);
    }
    ++received_;
    rdm_shm_release(shm_, &message);
  }

  bool is_done() const {
    return received_ == uint64_t{job_.messages} * job_.threads * (job_.procs - 1);
  }

  rdm_shm* shm_;
  const Job& job_;
  const rdm_shm_plan_options plan_;
  unsigned me_;
  std::vector<uint32_t> expected_;
  std::atomic<uint64_t> received_{0};
  std::mutex receiving_;
};

int run_rank(const char* name, unsigned rank, const Job& job) {
  const rdm_shm_plan_options plan = plan_of(job);
  rdm_shm* shm = nullptr;
  if (enter(name, plan, rank, 30'000, &shm) != RDM_OK || rdm_shm_commit(shm, RDM_OK) != RDM_OK) {
    broken("rank %u: %s", rank, rdm_shm_last_error());
  }
  Rank(shm, job).run();
  rdm_shm_detach(shm);
  return 0;
}

unsigned number(const char* text) { return static_cast<unsigned>(strtoul(text, nullptr, 10)); }

int start_ranks(char** argument, const char* seed) {
  const std::string name = fresh_name(argument[1]);
  std::vector<pid_t> ranks;
  for (unsigned rank = 0; rank < number(argument[2]); ++rank) {
    ranks.push_back(start({"rank", name, std::to_string(rank), argument[1], argument[2],
                           argument[3], argument[4], seed}));
  }
  bool is_right = true;
  for (const pid_t rank : ranks) is_right = end_of(rank).exited_well() && is_right;
  if (is_in_dev_shm(name)) broken("/dev/shm/%s was left behind", name.c_str());
  return is_right ? 0 : 1;
}

// The variables with which the two MPIs' launchers tell a process its rank.
unsigned from_launcher(const char* open_mpi, const char* mpich) {
  const char* value = getenv(open_mpi);
  if (value == nullptr) value = getenv(mpich);
  if (value == nullptr) broken("not started by mpirun: %s and %s are not set", open_mpi, mpich);
  return number(value);
}

}  // namespace

int main(int count, char** argument) {
  if (count == 9 && strcmp(argument[1], "rank") == 0) {
    const Job job = {layout_of(argument[4]), number(argument[5]), number(argument[6]),
                     number(argument[7]), number(argument[8])};
    return run_rank(argument[2], number(argument[3]), job);
  }
  if (count == 5 && strcmp(argument[1], "mpi") == 0) {
    const Job job = {layout_of(argument[3]), from_launcher("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
                     number(argument[4]), 1, 0};
    return run_rank(argument[2], from_launcher("OMPI_COMM_WORLD_RANK", "PMI_RANK"), job);
  }
  if ((count == 5 || count == 6) && layout_of(argument[1]) != kNoLayout) {
    return start_ranks(argument, count == 6 ? argument[5] : "0");
  }
  fprintf(stderr, "usage: shm_ranks LAYOUT PROCS MESSAGES THREADS [SEED]\n");
  return 2;
}
