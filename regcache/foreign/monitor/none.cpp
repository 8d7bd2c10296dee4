#include "regcache/foreign/monitor/monitor.h"

namespace rdmalloc {
namespace {

class NoMonitor final : public Monitor {
 public:
  const char* name() const noexcept override { return "none"; }
  const char* why() const noexcept override { return "foreign memory is registered for each use"; }
  bool watch(uintptr_t, size_t) noexcept override { return false; }
  void unwatch(uintptr_t, size_t) noexcept override {}
  void note_fork_child() noexcept override {}
};

constinit NoMonitor none;

}  // namespace

Monitor& no_monitor() { return none; }

}  // namespace rdmalloc
