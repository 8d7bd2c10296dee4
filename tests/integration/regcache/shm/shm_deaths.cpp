// Ranks that are killed at any moment: the others are told, with a status and in time, and nothing
// stays in /dev/shm.
//
//   shm_deaths killed LAYOUT PROCS ROUNDS SEED   one of many, while they start or send
//   shm_deaths asleep LAYOUT                     a rank for which another sleeps
//   shm_deaths pushing LAYOUT                    two, to which others keep sending without ever
//                                                waiting
//   shm_deaths alone                             the creator, before anyone else has attached
//   shm_deaths nobody LAYOUT                     the control: nobody is killed, nobody is told
#include <time.h>

#include <optional>
#include <random>

#include "tests/integration/regcache/shm/shm_launch.h"

using namespace shm_test;

namespace {

// Exit statuses of a rank.
enum { kToldOfDeath = 3, kNotStarted = 4, kRunsOn = 5 };
constexpr unsigned kSetUpMs = 1500;
// The time within which everyone must have been told. Long, for busy machines.
constexpr unsigned kToldMs = 20'000;

unsigned number(const char* text) { return static_cast<unsigned>(strtoul(text, nullptr, 10)); }

void nap_us(unsigned us) {
  const timespec length{us / 1'000'000, static_cast<long>(us % 1'000'000) * 1000};
  nanosleep(&length, nullptr);
}

rdm_shm* enter_or_leave(const char* name, unsigned rank, unsigned layout, unsigned procs) {
  rdm_shm* shm = nullptr;
  rdm_shm_plan_options plan = plan_for(procs, layout);
  plan.queue_entries = 2;  // senders find them full or, with mpsc, find no fragment
  int status = enter(name, plan, rank, kSetUpMs, &shm);
  if (status == RDM_OK) status = rdm_shm_commit(shm, RDM_OK);
  if (status == RDM_OK) return shm;
  const bool is_expected = status == RDM_PEER_DIED || status == RDM_AGAIN;
  if (!is_expected || rdm_shm_last_error()[0] == '\0') {
    broken("rank %u: status %d: %s", rank, status, rdm_shm_last_error());
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
int chat(const char* name, unsigned rank, unsigned layout, unsigned procs) {
  rdm_shm* shm = enter_or_leave(name, rank, layout, procs);
  for (unsigned step = 1;; ++step) {
    const unsigned to = (rank + 1 + step % (procs - 1)) % procs;
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
int sleep_in_wait(const char* name, unsigned rank, unsigned layout, unsigned procs) {
  rdm_shm* shm = enter_or_leave(name, rank, layout, procs);
  for (;;) leave_if_told(shm, rdm_shm_wait(shm, 60'000));
}

// Keeps sending to the next rank without waiting.
int push(const char* name, unsigned rank, unsigned layout, unsigned procs) {
  rdm_shm* shm = enter_or_leave(name, rank, layout, procs);
  for (;;) leave_if_told(shm, rdm_shm_send(shm, (rank + 1) % procs, 0, "x", 1));
}

std::vector<pid_t> start_all(const std::string& name, const char* what, const std::string& layout,
                             unsigned procs) {
  std::vector<pid_t> ranks;
  for (unsigned rank = 0; rank < procs; ++rank) {
    ranks.push_back(start({what, name, std::to_string(rank), layout, std::to_string(procs)}));
  }
  return ranks;
}

int end_in_time(pid_t rank) {
  const std::optional<ChildEnd> end = end_within(rank, kToldMs);
  return end ? end->status() : kRunsOn;
}

struct Tally {
  unsigned told = 0;
  unsigned not_started = 0;
};

// The victim is a zombie until the others have ended: launchers reap late.
void expect_told(const std::vector<pid_t>& ranks, size_t victim, const std::string& name,
                 Tally* tally) {
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
  for (unsigned round = 0; round < rounds; ++round) {
    const std::string name = fresh_name(layout) + "-" + std::to_string(round);
    const std::vector<pid_t> ranks = start_all(name, "chat", layout, procs);
    const size_t victim = random() % procs;
    // In half of the rounds, while they start.
    nap_us(static_cast<unsigned>(random() % (round % 2 == 0 ? 8000 * procs : 150'000)));
    kill(ranks[victim], SIGKILL);
    expect_told(ranks, victim, name, &tally);
  }
  printf("%u ranks were told while they sent, %u while they started\n", tally.told,
         tally.not_started);
  return tally.told == 0 ? 1 : 0;
}

int asleep(const char* layout) {
  const std::string name = fresh_name("asleep");
  const std::vector<pid_t> ranks = start_all(name, "sleep", layout, 3);
  nap_us(300'000);
  kill(ranks[1], SIGKILL);
  Tally tally;
  expect_told(ranks, 1, name, &tally);
  return tally.told == 2 ? 0 : 1;
}

// Each survivor must be told of its own receiver's death, not only of the first.
int pushing(const char* layout) {
  const std::string name = fresh_name("pushing");
  const std::vector<pid_t> ranks = start_all(name, "push", layout, 4);
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
  const std::vector<pid_t> ranks = start_all(name, "sleep", layout, 3);
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
    const pid_t creator = start({"sleep", name, "0", "aggregated", "2"});
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
  if (count == 6 && (what == "chat" || what == "sleep" || what == "push")) {
    const auto rank = what == "chat" ? chat : what == "push" ? push : sleep_in_wait;
    return rank(argument[2], number(argument[3]), layout_of(argument[4]), number(argument[5]));
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
