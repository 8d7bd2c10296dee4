#include "regcache/foreign/use_order.h"

namespace rdmalloc {

CacheEntry& UseOrder::oldest() {
  if (by_use_.empty()) return in_turn_.front();
  const bool is_first = !in_turn_.empty() && ByUse()(in_turn_.front(), *by_use_.begin());
  return is_first ? in_turn_.front() : *by_use_.begin();
}

void UseOrder::add(CacheEntry& entry) {
  const uint64_t use = entry.last_use.load(std::memory_order_relaxed);
  if (!in_turn_.empty() && in_turn_.back().listed_use > use) return add_anew(entry, use);
  entry.listed_use = use;
  entry.listed_turn = ++turn_;
  entry.is_listed_anew = false;
  in_turn_.push_back(entry);
}

void UseOrder::add_anew(CacheEntry& entry, uint64_t use) {
  entry.listed_use = use;
  entry.listed_turn = ++turn_;
  entry.is_listed_anew = true;
  by_use_.insert(by_use_.end(), entry);
}

void UseOrder::remove(CacheEntry& entry) {
  if (entry.is_listed_anew) {
    by_use_.erase(by_use_.iterator_to(entry));
  } else {
    in_turn_.erase(in_turn_.iterator_to(entry));
  }
}

void UseOrder::move(CacheEntry& entry, uint64_t use) {
  remove(entry);
  add_anew(entry, use);
}

void UseOrder::clear() {
  in_turn_.clear();
  by_use_.clear();
}

}  // namespace rdmalloc
