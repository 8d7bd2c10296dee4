#include "regcache/shm/fragments.h"

#include "regcache/shm/failure.h"

namespace rdmalloc::shm {

bool Fragments::make() {
  if (!eager_table_.make(mapping_.plan.eager().count()) ||
      !large_table_.make(mapping_.plan.large().count())) {
    return false;
  }
  eager_ = list_of(false, eager_table_);
  large_ = list_of(true, large_table_);
  return true;
}

FreeList Fragments::list_of(bool is_large, PrivateArray<Fragment*>& table) {
  const FragmentPlan& fragments = plan(is_large);
  const auto in_segment = [this](uint64_t into_part) {
    return mapping_.plan.at(mapping_.rank, into_part);
  };
  for (uint32_t i = 0; i < fragments.count(); ++i) table[i] = at(in_segment(fragments.fragment(i)));
  return FreeList(mapping_.as<FreeList::Word>(in_segment(fragments.list())), table.begin(),
                  fragments.count());
}

size_t Fragments::most() const {
  const size_t eager = plan(false).bytes();
  const size_t large = plan(true).count() > 0 ? plan(true).bytes() : 0;
  return large > eager ? large : eager;
}

void Fragments::give_back(Fragment* fragment) const {
  const uint64_t list = plan(fragment->is_large != 0).list();
  FreeList(mapping_.as<FreeList::Word>(mapping_.plan.at(fragment->owner, list)), nullptr, 0)
      .put(fragment);
}

int Fragments::open(uint64_t offset, rdm_shm_message* out) const {
  const uint64_t bytes = mapping_.plan.bytes();
  const bool is_inside = offset < bytes - sizeof(Fragment) && offset % alignof(Fragment) == 0;
  Fragment* fragment = is_inside ? at(offset) : nullptr;
  if (!is_inside || fragment->owner >= mapping_.procs() || fragment->owner == mapping_.rank ||
      fragment->length > capacity(fragment) ||
      fragment->length > bytes - offset - sizeof(Fragment)) {
    return fail(RDM_SYSTEM, "the segment is damaged: a message at %llu",
                static_cast<unsigned long long>(offset));
  }
  out->data = fragment->bytes();
  out->length = fragment->length;
  out->tag = fragment->tag;
  out->from = fragment->owner;
  out->handle = offset;
  return RDM_OK;
}

}  // namespace rdmalloc::shm
