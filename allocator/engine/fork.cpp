// jemalloc 5.3 takes this lock in malloc and forgets it at fork: the lock of the table that maps
// addresses to extents, taken while the table grows. A child forked meanwhile would wait for it
// forever, at the first malloc that makes an extent where the table has no leaf yet.
//
// Runs in jemalloc's own fork handlers. In its lock order this lock comes right before that of the
// first base, whose memory the table is made of; so it is taken there.
extern "C" {

struct RadixTree {  // rtree_t, as far as needed
  void* base;
  void* init_lock;
};

extern RadixTree je_arena_emap_global;
void* je_b0get();
void je_malloc_mutex_prefork(void* tsdn, void* mutex);
void je_malloc_mutex_postfork_parent(void* tsdn, void* mutex);
void je_malloc_mutex_postfork_child(void* tsdn, void* mutex);

void __real_je_base_prefork(void* tsdn, void* base);
void __wrap_je_base_prefork(void* tsdn, void* base) {
  if (base == je_b0get()) je_malloc_mutex_prefork(tsdn, &je_arena_emap_global.init_lock);
  __real_je_base_prefork(tsdn, base);
}

void __real_je_base_postfork_parent(void* tsdn, void* base);
void __wrap_je_base_postfork_parent(void* tsdn, void* base) {
  __real_je_base_postfork_parent(tsdn, base);
  if (base == je_b0get()) je_malloc_mutex_postfork_parent(tsdn, &je_arena_emap_global.init_lock);
}

void __real_je_base_postfork_child(void* tsdn, void* base);
void __wrap_je_base_postfork_child(void* tsdn, void* base) {
  __real_je_base_postfork_child(tsdn, base);
  if (base == je_b0get()) je_malloc_mutex_postfork_child(tsdn, &je_arena_emap_global.init_lock);
}

}  // extern "C"
