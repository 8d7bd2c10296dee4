#include "tests/support/fake_monitor.h"

#include "regcache/foreign/monitor/monitor.h"

namespace rdmalloc {
namespace fake {

MonitorState monitor;

namespace {

class FakeMonitor final : public Monitor {
 public:
  const char* name() const noexcept override { return "fake"; }
  const char* why() const noexcept override { return "it is a test's"; }
  bool watch(uintptr_t, size_t) noexcept override {
    if (!monitor.can_watch) return false;
    ++monitor.watched;
    return true;
  }
  void unwatch(uintptr_t, size_t) noexcept override { ++monitor.unwatched; }
  void note_fork_child() noexcept override {}
};

FakeMonitor the_monitor;

}  // namespace
}  // namespace fake

Monitor& monitor_in_force(MonitorWish, const char** why) {
  if (why != nullptr) *why = fake::the_monitor.why();
  return fake::the_monitor;
}

Monitor& monitor_started() { return fake::the_monitor; }

void note_fork_child_of_monitors() {}

}  // namespace rdmalloc
