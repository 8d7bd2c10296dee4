// The rounds of the registrar: in each, every domain registers what is missing, if it is due.
//
// Runs in the registrar's thread, and for the rounds' length in others that it starts; calls the
// backends, and takes no lock.
#pragma once

#include <cstdint>

#include "regcache/domain/domains.h"

namespace rdmalloc {

class RegistrarRounds {
 public:
  constexpr RegistrarRounds(Domains* domains, Retries* retries)
      : domains_(domains), retries_(retries) {}
  RegistrarRounds(const RegistrarRounds&) = delete;
  RegistrarRounds& operator=(const RegistrarRounds&) = delete;

  // Returns the nanoseconds until the next round, or Registrar::kNever.
  uint64_t work();

  void note_fork_child() { put_off_ = 0; }

 private:
  uint64_t put_off();

  Domains* const domains_;
  Retries* const retries_;
  unsigned put_off_ = 0;  // successive rounds in which a backend asked to be called later
};

}  // namespace rdmalloc
