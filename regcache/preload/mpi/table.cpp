#include "regcache/preload/mpi/table.h"

#include <stdlib.h>

namespace rdmalloc::mpi {

void Table::count(size_t change) {
  count_.fetch_add(change, std::memory_order_release);
  if (others_ != nullptr) others_->fetch_add(change, std::memory_order_release);
}

Table::Node** Table::find(uintptr_t key) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15U;
  Node** link = &buckets_[(key * kMix >> 32) % kBuckets];
  while (*link != nullptr && (*link)->key != key) link = &(*link)->next;
  return link;
}

bool Table::put(uintptr_t key, void* value) {
  auto* added = static_cast<Node*>(malloc(sizeof(Node)));
  if (added == nullptr) return false;
  *added = {key, value, nullptr};
  pthread_mutex_lock(&lock_);
  Node** link = find(key);
  Node* replaced = *link;
  added->next = replaced != nullptr ? replaced->next : nullptr;
  *link = added;
  if (replaced == nullptr) count(1);
  pthread_mutex_unlock(&lock_);
  free(replaced);
  return true;
}

bool Table::take(uintptr_t key, void** value) {
  pthread_mutex_lock(&lock_);
  Node** link = find(key);
  Node* found = *link;
  if (found != nullptr) {
    *link = found->next;
    count(~size_t{0});
  }
  pthread_mutex_unlock(&lock_);
  if (found == nullptr) return false;
  *value = found->value;
  free(found);
  return true;
}

}  // namespace rdmalloc::mpi
