#include "allocator/tools/run/watcher.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "allocator/os/newer_headers.h"
#include "allocator/report/whole_file.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/json.h"

namespace rdmalloc::cli {
namespace {

// Short, because a process may be killed in its first seconds.
constexpr std::chrono::milliseconds kFirstInterval{1000};
// For kernels that do not signal the end of a process (before Linux 5.3).
constexpr std::chrono::milliseconds kLookAgain{200};

// The content of one datagram.
struct Announcement {
  pid_t process = 0;
  uid_t user = 0;
  Descriptor page;
  std::string report;
};

void read_control(const msghdr& message, Announcement* out) {
  auto* const head = const_cast<msghdr*>(&message);
  for (cmsghdr* part = CMSG_FIRSTHDR(head); part != nullptr; part = CMSG_NXTHDR(head, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_RIGHTS) {
      int page = -1;
      memcpy(&page, CMSG_DATA(part), sizeof page);
      out->page = Descriptor(page);
    } else if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender;
      memcpy(&sender, CMSG_DATA(part), sizeof sender);
      out->process = sender.pid;
      out->user = sender.uid;
    }
  }
}

// False: there is no datagram.
bool receive(int socket, Announcement* out) {
  std::array<char, WholeFile::kLongestPath> words;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))> control;
  iovec content = {words.data(), words.size()};
  msghdr message = {};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return false;
  read_control(message, out);
  const bool is_whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (is_whole) out->report.assign(words.data(), static_cast<size_t>(got));
  return true;
}

std::string as_report(const ProcessCounters& counters, bool has_ended) {
  auto json = counters_json(counters);
  json["pid"] = counters.process;
  json["phases"] = phases_json(counters);
  json["partial"] = true;  // a report that the process writes has more keys, and not these
  json["ended"] = has_ended;
  json["time"] = time_text();
  return as_text(json, 2) + "\n";
}

// Never overwrites the process's own report: the process says that it begins one while it holds the
// lock.
void write_one(const CounterReader& page, int lock, const std::string& report, bool has_ended) {
  const bool is_locked = flock(lock, LOCK_EX | LOCK_NB) == 0;
  if (!is_locked && !has_ended) return;
  const ProcessCounters counters = page.read();
  const auto state = static_cast<ReportState>(counters.report);
  const bool is_ours = has_ended ? state != ReportState::kWritten : state == ReportState::kAbsent;
  if (is_ours) {
    const std::string text = as_report(counters, has_ended);
    (void)write_whole_file(report.c_str(), counters.process, text.data(), text.size());
  }
  if (is_locked) flock(lock, LOCK_UN);
}

// Opens the file anew: a lock through the descriptor that was sent would also be the sender's.
Descriptor open_again(const Descriptor& file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  return Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

Watcher::Watcher(int socket, pid_t program, std::chrono::seconds interval)
    : socket_(socket),
      program_(look_for(program)),
      most_(interval),
      interval_(std::min<std::chrono::milliseconds>(interval, kFirstInterval)),
      next_(Clock::now() + interval_) {}

// A process that has already ended has no start time and cannot be opened.
Watcher::Life Watcher::look_for(pid_t process) {
  Life life;
  life.process.number = static_cast<uint64_t>(process);
  life.descriptor = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  life.has_ended =
      !os::read_start(life.process.number, &life.process.start) && life.descriptor.get() < 0;
  return life;
}

void Watcher::look_at(Life* life, bool is_told) {
  const bool is_gone = life->descriptor.get() >= 0 ? is_told : !os::is_alive(life->process);
  life->has_ended = life->has_ended || is_gone;
}

void Watcher::run() {
  for (;;) {
    hear_all();
    if (!has_anybody()) return;
    std::vector<pollfd> polled = what_to_poll();
    (void)poll(polled.data(), polled.size(), milliseconds_left());
    // First read the announcements of processes that were killed right after making them.
    hear_all();
    look_who_ended(polled);
    if (Clock::now() >= next_) write_all();
  }
}

void Watcher::hear_all() {
  while (hear_one()) continue;
}

bool Watcher::hear_one() {
  Announcement heard;
  if (!receive(socket_, &heard)) return false;
  const bool is_good = heard.user == geteuid() && heard.process > 0 && !heard.report.empty() &&
                       heard.report.front() == '/';
  if (is_good) add(heard.process, heard.page, std::move(heard.report));
  return true;
}

// A report belongs to one process: the first, as long as it lives, whatever it executes.
void Watcher::add(pid_t process, const Descriptor& page, std::string report) {
  Descriptor lock = open_again(page);
  std::optional<CounterReader> reader = CounterReader::of_descriptor(lock.get());
  const auto same = std::ranges::find(watched_, report, &Watched::report);
  const bool is_taken =
      same != watched_.end() && same->life.process.number != static_cast<uint64_t>(process);
  if (!reader || is_taken) return;
  if (same != watched_.end()) watched_.erase(same);
  watched_.push_back({look_for(process), std::move(*reader), std::move(lock), std::move(report)});
}

// Processes added since the poll are at the end of the list, and are looked at next time.
void Watcher::look_who_ended(const std::vector<pollfd>& polled) {
  const auto is_told = [&](int fd) {
    return std::any_of(polled.begin(), polled.end(),
                       [fd](const pollfd& one) { return one.fd == fd && one.revents != 0; });
  };
  look_at(&program_, is_told(program_.descriptor.get()));
  for (Watched& one : watched_) {
    look_at(&one.life, is_told(one.life.descriptor.get()));
    if (one.life.has_ended) write_one(one.page, one.lock.get(), one.report, true);
  }
  std::erase_if(watched_, [](const Watched& one) { return one.life.has_ended; });
}

void Watcher::write_all() {
  for (const Watched& one : watched_) write_one(one.page, one.lock.get(), one.report, false);
  interval_ = std::min<std::chrono::milliseconds>(interval_ * 2, most_);
  next_ = Clock::now() + interval_;
}

bool Watcher::has_anybody() const { return !program_.has_ended || !watched_.empty(); }

int Watcher::milliseconds_left() const {
  using std::chrono::milliseconds;
  const auto is_asked = [](const Life& life) {
    return !life.has_ended && life.descriptor.get() < 0;
  };
  const bool asks =
      is_asked(program_) || std::any_of(watched_.begin(), watched_.end(), [&](const Watched& one) {
        return is_asked(one.life) || one.life.has_ended;
      });
  auto left = std::chrono::duration_cast<milliseconds>(next_ - Clock::now()) + milliseconds(1);
  if (asks) left = std::min(left, kLookAgain);
  return static_cast<int>(std::max(left, milliseconds(0)).count());
}

std::vector<pollfd> Watcher::what_to_poll() const {
  std::vector<pollfd> all{{socket_, POLLIN, 0}};
  // poll() ignores descriptors that are -1.
  if (!program_.has_ended) all.push_back({program_.descriptor.get(), POLLIN, 0});
  for (const Watched& one : watched_) all.push_back({one.life.descriptor.get(), POLLIN, 0});
  return all;
}

}  // namespace rdmalloc::cli
