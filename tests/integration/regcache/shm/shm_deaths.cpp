// Ranks that are killed at any moment: the others are told, with a status and in time, and nothing
// stays in /dev/shm.
//
//   shm_deaths killed LAYOUT PROCS ROUNDS SEED   one of many, while they send or start
//   shm_deaths asleep LAYOUT                     a rank for which another sleeps
//   shm_deaths pushing LAYOUT                    two, to which others keep sending without ever
//                                                waiting
//   shm_deaths alone                             the creator, before anyone else has attached
//   shm_deaths nobody LAYOUT                     the control: nobody is killed, nobody is told
#include <time.h>

#include <chrono>
#include <optional>
#include <random>

#include "tests/integration/regcache/shm/shm_launch.h"

using namespace shm_test;

namespace {

// Exit statuses of a rank.
enum { kToldOfDeath = 3, kNotStarted = 4, kRunsOn = 5 };
// Who waits for a creator that was killed takes all of this time.
constexpr unsigned kSetUpMs = 1500;
// Where all must start, which takes a second in an emulator.
constexpr unsigned kPatientSetUpMs = 60'000;
// The time within which everyone must have been told. Long, for busy machines.
constexpr unsigned kToldMs = 20'000;
// Each rank that has started writes a byte here.
constexpr int kStarted = 100;

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What a rank is told.
struct Role {
  const char* name;
  unsigned rank;
  unsigned layout;
  unsigned procs;
  unsigned set_up_ms;
};

unsigned number(const char* text) { return static_cast<unsigned>(strtoul(text, nullptr, 10)); }

void nap_us(unsigned us) {
  const timespec length{us / 1'000'000, static_cast<long>(us % 1'000'000) * 1000};
  nanosleep(&length, nullptr);
}

rdm_shm* enter_or_leave(const Role& role) {
  rdm_shm* shm = nullptr;
  rdm_shm_plan_options plan = plan_for(role.procs, role.layout);
  plan.queue_entries = 2;  // senders find them full or, with mpsc, find no fragment
  int status = enter(role.name, plan, role.rank, role.set_up_ms, &shm);
  if (status == RDM_OK) status = rdm_shm_commit(shm, RDM_OK);
  if (status == RDM_OK) {
    if (write(kStarted, "", 1) != 1) broken("rank %u: nobody hears that it has started", role.rank);
    return shm;
  }
  const bool is_expected = status == RDM_PEER_DIED || status == RDM_AGAIN;
  if (!is_expected || rdm_shm_last_error()[0] == '\0') {
    broken("rank %u: status %d: %s", role.rank, status, rdm_shm_last_error());
  }
  rdm_shm_detach(shm);
  _exit(kNotStarted);
}

void leave_if_told(rdm_shm* shm, int status) {
  if (status == RDM_OK || status == RDM_AGAIN) return;
  if (status != RDM_PEER_DIED) broken("status %d: %s", status, rdm_shm_last_error());
  rdm_shm_detach(shm);
  _exit(kToldOfDeath);
}

// Sends and receives until some rank dies.
int chat(const Role& role) {
  rdm_shm* shm = enter_or_leave(role);
  for (unsigned step = 1;; ++step) {
    const unsigned to = (role.rank + 1 + step % (role.procs - 1)) % role.procs;
    const char bytes[300] = {};
    const int sent = rdm_shm_send(shm, to, step, bytes, step % 2 == 0 ? 8 : sizeof bytes);
    leave_if_told(shm, sent);
    rdm_shm_message message;
    int status = rdm_shm_poll(shm, &message);
    leave_if_told(shm, status);
    if (status == RDM_OK) rdm_shm_release(shm, &message);
    if (status == RDM_AGAIN && sent == RDM_AGAIN) leave_if_told(shm, rdm_shm_wait(shm, 1000));
  }
}

// Waits for a message that never comes.
int sleep_in_wait(const Role& role) {
  rdm_shm* shm = enter_or_leave(role);
  for (;;) leave_if_told(shm, rdm_shm_wait(shm, 60'000));
}

// Keeps sending to the next rank without waiting.
int push(const Role& role) {
  rdm_shm* shm = enter_or_leave(role);
  for (;;) leave_if_told(shm, rdm_shm_send(shm, (role.rank + 1) % role.procs, 0, "x", 1));
}

class Ranks {
 public:
  Ranks(const std::string& name, const char* what, const std::string& layout, unsigned procs,
        unsigned set_up_ms) {
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], kStarted) != kStarted) broken("no pipe");
    close(ends[1]);
    for (unsigned rank = 0; rank < procs; ++rank) {
      pids_.push_back(start({what, name, std::to_string(rank), layout, std::to_string(procs),
                             std::to_string(set_up_ms)}));
    }
    close(kStarted);
    started_ = ends[0];
  }
  Ranks(const Ranks&) = delete;
  ~Ranks() { close(started_); }

  pid_t operator[](size_t rank) const { return pids_[rank]; }
  size_t size() const { return pids_.size(); }
  auto begin() const { return pids_.begin(); }
  auto end() const { return pids_.end(); }

  void wait_until_all_have_started() const {
    for (size_t count = 0; count < size(); ++count) {
      char byte;
      if (read(started_, &byte, 1) != 1) broken("of %zu ranks %zu started", size(), count);
    }
  }

 private:
  std::vector<pid_t> pids_;
  int started_;
};

int end_in_time(pid_t rank) {
  const std::optional<ChildEnd> end = end_within(rank, kToldMs);
  return end ? end->status() : kRunsOn;
}

struct Tally {
  unsigned told = 0;
  unsigned not_started = 0;
};

// The victim is a zombie until the others have ended: launchers reap late.
void expect_told(const Ranks& ranks, size_t victim, const std::string& name, Tally* tally) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == victim) continue;
    const int end = end_in_time(ranks[rank]);
    if (end != kToldOfDeath && end != kNotStarted) {
      for (const pid_t other : ranks) kill(other, SIGKILL);
      broken("rank %zu ended with %d when rank %zu was killed", rank, end, victim);
    }
    ++(end == kToldOfDeath ? tally->told : tally->not_started);
  }
  end_of(ranks[victim]);
  if (is_in_dev_shm(name)) broken("/dev/shm/%s was left behind", name.c_str());
}

int killed(const char* layout, unsigned procs, unsigned rounds, unsigned seed) {
  std::mt19937 random(seed);
  Tally tally;
  unsigned sending = 0;
  int64_t starting_us = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    const std::string name = fresh_name(layout) + "-" + std::to_string(round);
    const bool all_start = round % 2 == 0;
    const Clock::time_point begin = Clock::now();
    const Ranks ranks(name, "chat", layout, procs, all_start ? kPatientSetUpMs : kSetUpMs);
    const size_t victim = random() % procs;
    if (all_start) {
      ranks.wait_until_all_have_started();
      starting_us = (Clock::now() - begin) / 1us;
      sending += procs - 1;
    }
    nap_us(static_cast<unsigned>(random() % (all_start ? 150'000 : starting_us)));
    kill(ranks[victim], SIGKILL);
    expect_told(ranks, victim, name, &tally);
  }
  printf("%u ranks were told while they sent, %u while they started\n", tally.told,
         tally.not_started);
  return tally.told < sending ? 1 : 0;
}

int asleep(const char* layout) {
  const std::string name = fresh_name("asleep");
  const Ranks ranks(name, "sleep", layout, 3, kPatientSetUpMs);
  ranks.wait_until_all_have_started();
  nap_us(300'000);
  kill(ranks[1], SIGKILL);
  Tally tally;
  expect_told(ranks, 1, name, &tally);
  return tally.told == 2 ? 0 : 1;
}

// Each survivor must be told of its own receiver's death, not only of the first.
int pushing(const char* layout) {
  const std::string name = fresh_name("pushing");
  const Ranks ranks(name, "push", layout, 4, kPatientSetUpMs);
  ranks.wait_until_all_have_started();
  nap_us(300'000);
  for (const size_t victim : {1, 3}) {
    kill(ranks[victim], SIGKILL);
    nap_us(100'000);
  }
  int wrong = 0;
  for (const size_t rank : {0, 2}) {
    const int end = end_in_time(ranks[rank]);
    if (end != kToldOfDeath) fprintf(stderr, "rank %zu: %d\n", rank, end), ++wrong;
  }
  for (const pid_t rank : ranks) kill(rank, SIGKILL);
  for (const size_t victim : {1, 3}) end_of(ranks[victim]);
  return wrong == 0 && !is_in_dev_shm(name) ? 0 : 1;
}

int nobody(const char* layout) {
  const std::string name = fresh_name("nobody");
  const Ranks ranks(name, "sleep", layout, 3, kPatientSetUpMs);
  ranks.wait_until_all_have_started();
  nap_us(500'000);
  for (const pid_t rank : ranks) {
    if (end_within(rank, 0)) broken("a rank ended by itself");
  }
  if (is_in_dev_shm(name)) broken("/dev/shm/%s has a name still", name.c_str());
  for (const pid_t rank : ranks) kill(rank, SIGKILL);
  for (const pid_t rank : ranks) end_of(rank);
  return is_in_dev_shm(name) ? 1 : 0;
}

// The one case in which a name stays: nobody who knows it is left. The next creator takes it over.
int alone() {
  for (const bool is_removed : {true, false}) {
    const std::string name = fresh_name("alone");
    const pid_t creator =
        start({"sleep", name, "0", "aggregated", "2", std::to_string(kPatientSetUpMs)});
    while (!is_in_dev_shm(name)) nap_us(500);
    if (rdm_shm_remove(name.c_str()) != RDM_BUSY) broken("a living creator's name was removed");
    kill_child(creator);
    if (!is_in_dev_shm(name)) broken("the killed creator removed its name");
    rdm_shm* shm = nullptr;
    const rdm_shm_plan_options plan = plan_for(1, RDM_SHM_AGGREGATED);
    if (is_removed) {
      if (rdm_shm_remove(name.c_str()) != RDM_OK) broken("remove: %s", rdm_shm_last_error());
    } else if (rdm_shm_create(name.c_str(), &plan, 0, nullptr, &shm) != RDM_OK ||
               rdm_shm_commit(shm, RDM_OK) != RDM_OK) {
      broken("create over a dead one's: %s", rdm_shm_last_error());
    }
    rdm_shm_detach(shm);
    if (is_in_dev_shm(name)) broken("/dev/shm/%s was left behind", name.c_str());
  }
  return 0;
}

}  // namespace

int main(int count, char** argument) {
  const std::string what = count > 1 ? argument[1] : "";
  if (count == 7 && (what == "chat" || what == "sleep" || what == "push")) {
    const auto rank = what == "chat" ? chat : what == "push" ? push : sleep_in_wait;
    return rank({argument[2], number(argument[3]), layout_of(argument[4]), number(argument[5]),
                 number(argument[6])});
  }
  if (count == 6 && what == "killed") {
    return killed(argument[2], number(argument[3]), number(argument[4]), number(argument[5]));
  }
  if (count == 3 && what == "asleep") return asleep(argument[2]);
  if (count == 3 && what == "pushing") return pushing(argument[2]);
  if (count == 3 && what == "nobody") return nobody(argument[2]);
  if (count == 2 && what == "alone") return alone();
  fprintf(stderr, "usage: shm_deaths killed|asleep|pushing|nobody|alone ...\n");
  return 2;
}
