#include "tests/support/fake_foreign.h"

#include <algorithm>
#include <cstdio>

#include "regcache/foreign/monitor/changes.h"

namespace rdmalloc::fake {

void Pages::change(size_t first, size_t count, const std::function<void()>& meanwhile) {
  const Change change(at(first), count * kSize);
  if (meanwhile) meanwhile();
  for (size_t page = first; page < first + count; ++page) {
    versions_[page].fetch_add(1, std::memory_order_acq_rel);
  }
}

void Gate::shut() {
  const std::lock_guard hold(mutex_);
  is_shut_ = true;
}

void Gate::open() {
  const std::lock_guard hold(mutex_);
  is_shut_ = false;
  moved_.notify_all();
}

void Gate::pass() {
  std::unique_lock hold(mutex_);
  if (!is_shut_) return;
  ++held_;
  moved_.notify_all();
  moved_.wait(hold, [&] { return !is_shut_; });
  --held_;
}

void Gate::wait_until_held(int threads) {
  std::unique_lock hold(mutex_);
  moved_.wait(hold, [&] { return held_ >= threads; });
}

void ForeignDevice::check(uintptr_t base, size_t length) {
  if (length == 0 || base + length < base)
    violations_.push_back("an empty range, or a wrapped one");
  if ((base | length) % unit != 0) violations_.push_back("not aligned");
  if (length > longest) violations_.push_back("too long");
  if (now_.size() + 1 > promised_count) violations_.push_back("more than foreign_count");
  if (bytes_ + length > promised_bytes) violations_.push_back("more than foreign_bytes");
}

int ForeignDevice::refusal(uintptr_t base, size_t length) {
  if (now_.size() + kept_count_ >= room_count) return RDM_NOT_REGISTERED;
  if (bytes_ + kept_bytes_ + length > room_bytes) return RDM_OUT_OF_BUDGET;
  if (!refuses_overlaps) return RDM_OK;
  for (const Registration* one : now_) {
    if (one->overlaps(base, base + length)) return RDM_BACKEND_OVERLAPS;
  }
  return RDM_OK;
}

int ForeignDevice::register_foreign(uintptr_t base, size_t length, size_t room,
                                    rdm_backend_key* key, char* why, size_t why_size) {
  ++calls_;
  if (room != 0) {
    const std::lock_guard hold(mutex_);
    if (kept_count_ == 0 || room > kept_bytes_ || room > length) {
      violations_.push_back("takes room that was not kept for it");
    } else {
      --kept_count_;
      kept_bytes_ -= room;
    }
  }
  registering.pass();
  if (before) before(base, length);
  if (fail_in != 0 && --fail_in == 0) {
    snprintf(why, why_size, "this call was to fail");
    return fail_status;
  }
  if (later != 0) {
    --later;
    return RDM_BACKEND_LATER;
  }
  auto made = std::make_unique<Registration>();
  Registration& one = *made;
  one.base = base;
  one.length = length;
  {
    const std::lock_guard hold(mutex_);
    if (const int status = refusal(base, length); status != RDM_OK) {
      if (status != RDM_NOT_REGISTERED) snprintf(why, why_size, "the device refuses: %d", status);
      return status;
    }
    check(base, length);
    for (size_t page = 0; page < Pages::kCount; ++page) one.seen[page] = pages_->version(page);
    all_.push_back(std::move(made));
    now_.push_back(&one);
    one.number = all_.size();
    bytes_ += length;
  }
  const auto number = static_cast<uint32_t>(one.number);
  *key = {number, number + 1'000'000, &one};
  registered.pass();
  if (after) after(one);
  return RDM_OK;
}

int ForeignDevice::deregister_foreign(size_t length, const rdm_backend_key& key, bool keeps_room) {
  deregistering.pass();
  auto& one = *static_cast<Registration*>(key.handle);
  if (deregister_later != 0) {
    --deregister_later;
    return RDM_BACKEND_LATER;
  }
  if (keep != 0) {
    --keep;
    if (kept) kept(one);
    return RDM_SYSTEM;
  }
  {
    const std::lock_guard hold(mutex_);
    if (!one.is_registered.exchange(false) || one.length != length || one.number != key.lkey) {
      violations_.push_back("deregistered what is not registered");
      return RDM_SYSTEM;
    }
    now_.erase(std::find(now_.begin(), now_.end(), &one));
    bytes_ -= length;
    if (keeps_room) {
      ++kept_count_;
      kept_bytes_ += length;
    }
  }
  if (gone) gone(one);
  return RDM_OK;
}

void ForeignDevice::forget_all() {
  const std::lock_guard hold(mutex_);
  for (Registration* one : now_) one->is_registered = false;
  now_.clear();
  bytes_ = 0;
  kept_count_ = 0;
  kept_bytes_ = 0;
}

std::vector<Registration*> ForeignDevice::now() const {
  const std::lock_guard hold(mutex_);
  return now_;
}

size_t ForeignDevice::count() const {
  const std::lock_guard hold(mutex_);
  return now_.size();
}

size_t ForeignDevice::bytes() const {
  const std::lock_guard hold(mutex_);
  return bytes_;
}

std::vector<std::string> ForeignDevice::violations() const {
  const std::lock_guard hold(mutex_);
  std::vector<std::string> all = violations_;
  if (kept_count_ != 0) all.emplace_back("room is kept for nobody");
  return all;
}

namespace {

class Sink final : public ChangeSink {
 public:
  void on_change(uintptr_t base, uintptr_t end) noexcept override {
    if (ForeignCache* const cache = told.load()) cache->on_change(base, end);
  }
  bool is_cached(uintptr_t base, uintptr_t end) noexcept override {
    ForeignCache* const cache = told.load();
    return cache != nullptr && cache->is_cached(base, end);
  }
  std::atomic<ForeignCache*> told{nullptr};
};

Sink sink;

}  // namespace

void set_changed_cache(ForeignCache* cache) {
  sink.told = cache;
  changes.attach(&sink);
}

}  // namespace rdmalloc::fake
