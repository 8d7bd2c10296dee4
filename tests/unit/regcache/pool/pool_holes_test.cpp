// Buffers whose pages the program destroys or shuts: they are never handed out, their keys never
// found, and all others are.
#include <string.h>
#include <sys/mman.h>

#include "tests/support/pool_buffers.h"

namespace rdmalloc {
namespace {

using fake::get_all;
using fake::kPage;
using fake::pools_are_clean;
using fake::put_all;

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

struct Fixture : fake::PoolFixture {
  Fixture() {
    settings.alignment = kPage;
    settings.buffer_bytes = 2 * kPage;
    settings.reserve = 24;
    settings.most = 24;
    boot();
  }

  // What the interposed munmap() does.
  void destroy(const void* at, size_t pages) {
    const ProgramHoles::Hole hole = heap.begin_hole(number(at), pages * kPage);
    fake::destroy(at, pages * kPage);
    heap->holes().end(hole, "munmap");
  }
  void shut(void* at, size_t pages) {
    heap->holes().shut(number(at), pages * kPage);
    REQUIRE(mprotect(at, pages * kPage, PROT_NONE) == 0);
  }
  // Whether rdm_pool_key knows the buffer, by each of its bytes asked for, as the device does.
  bool has_key(Pool* pool, const rdm_buffer& buffer) {
    rdm_mr mr{};
    const char* const last = static_cast<char*>(buffer.address) + buffer.length - 1;
    const int status = Pool::key(pool, buffer.address, &mr);
    REQUIRE(Pool::key(pool, last, &mr) == status);
    if (status == RDM_OK) {
      check(buffer);
    } else {
      REQUIRE(status == RDM_NOT_OWNED);
      REQUIRE(says("the program has unmapped"));
    }
    return status == RDM_OK;
  }
};

bool is_among(const std::vector<rdm_buffer>& buffers, const void* address) {
  for (const rdm_buffer& buffer : buffers) {
    if (buffer.address == address) return true;
  }
  return false;
}

TEST_CASE_METHOD(Fixture, "a buffer that the program destroyed has no key, and all others have") {
  open_domain();
  Pool* pool = create();
  const std::vector<rdm_buffer> all = get_all(*this, pool);
  REQUIRE(all.size() == 24);
  destroy(all[5].address, 1);
  destroy(static_cast<char*>(all[9].address) + kPage, 1);
  for (size_t i = 0; i < all.size(); ++i) {
    INFO("buffer " << i);
    CHECK(has_key(pool, all[i]) == (i != 5 && i != 9));
  }
}

TEST_CASE_METHOD(Fixture, "a destroyed buffer is never handed out, free or put back") {
  if (GENERATE(false, true)) open_domain();
  Pool* pool = create();
  const std::vector<rdm_buffer> all = get_all(*this, pool);
  std::vector<rdm_buffer> free(all.begin(), all.begin() + 12);
  const std::vector<rdm_buffer> out(all.begin() + 12, all.end());
  put_all(pool, free);
  destroy(free[3].address, 2);
  destroy(free[11].address, 1);  // it would be the next
  destroy(out[0].address, 2);
  REQUIRE(Pool::put(pool, out[0].address) == RDM_OK);
  REQUIRE(Pool::put(pool, out[0].address) == RDM_INVALID);
  // The pool may have as many more.
  std::vector<rdm_buffer> again = get_all(*this, pool);
  CHECK(again.size() == 13);
  for (const rdm_buffer& gone : {free[3], free[11], out[0]}) {
    CHECK_FALSE(is_among(again, gone.address));
  }
  CHECK(pool->validate());
  CHECK(counts(pool).out == 24);
  CHECK(counts(pool).held == 24);
  again.insert(again.end(), out.begin() + 1, out.end());
  put_all(pool, again);
  CHECK(pool->validate());
  REQUIRE(pool->close() == RDM_OK);
  CHECK(memory.blocks() == 0);
}

TEST_CASE_METHOD(Fixture, "a pool all of whose buffers were destroyed goes on with new ones") {
  open_domain();
  Pool* pool = create();
  put_all(pool, get_all(*this, pool));
  const char* const window = reinterpret_cast<char*>(heap->window().base());
  for (size_t i = 0; i < heap->regions().size(); ++i) {
    const Region& region = heap->regions()[i];
    destroy(window + (region.base - heap->window().base()), region.length / kPage);
  }
  const std::vector<rdm_buffer> all = get_all(*this, pool);
  CHECK(all.size() == 24);
  for (const rdm_buffer& buffer : all) CHECK(has_key(pool, buffer));
  CHECK(pool->validate());
  put_all(pool, all);
  REQUIRE(pool->close() == RDM_OK);
  CHECK(memory.blocks() == 0);
}

TEST_CASE_METHOD(Fixture, "a buffer left shut is handed out accessible, with its key") {
  open_domain();
  Pool* pool = create();
  const std::vector<rdm_buffer> all = get_all(*this, pool);
  shut(all[7].address, 1);
  CHECK(has_key(pool, all[7]));  // as rdm_lookup: the device still has the page
  put_all(pool, all);
  const std::vector<rdm_buffer> again = get_all(*this, pool);
  CHECK(again.size() == 24);
  CHECK(is_among(again, all[7].address));
  for (const rdm_buffer& buffer : again) memset(buffer.address, 0x5A, buffer.length);
  CHECK_FALSE(heap->marks().is_changed(number(all[7].address), 2 * kPage));
  put_all(pool, again);
  REQUIRE(pool->close() == RDM_OK);
  CHECK(pools_are_clean(*this));
}

TEST_CASE_METHOD(Fixture, "buffers of a call that the kernel refused stay") {
  open_domain();
  Pool* pool = create();
  const std::vector<rdm_buffer> all = get_all(*this, pool);
  const ProgramHoles::Hole hole = heap.begin_hole(number(all[2].address), 2 * kPage);
  CHECK_FALSE(has_key(pool, all[2]));
  heap->holes().undo(hole);
  for (const rdm_buffer& buffer : all) CHECK(has_key(pool, buffer));
  put_all(pool, all);
  CHECK(get_all(*this, pool).size() == 24);
}

TEST_CASE_METHOD(Fixture, "a key is not found for what reaches across a cut and is no buffer") {
  backend.limits.max_length = 10 * kPage;
  settings.buffer_bytes = 3 * kPage;
  open_domain();
  Pool* pool = create();
  const std::vector<rdm_buffer> all = get_all(*this, pool);
  size_t refused = 0;
  rdm_mr mr{};
  const uintptr_t first = number(all.front().address);
  for (size_t i = 0; i < 10; ++i) {
    void* const at = reinterpret_cast<void*>(first + i * 3 * kPage);
    const int status = Pool::key(pool, at, &mr);
    CHECK((status == RDM_OK) == is_among(all, at));
    if (status != RDM_OK) ++refused;
  }
  CHECK(refused != 0);
}

}  // namespace
}  // namespace rdmalloc
