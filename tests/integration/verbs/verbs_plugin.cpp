// A plug-in that is linked with libibverbs, for verbs_host.cpp.
#include <stdlib.h>

#include "fake_libibverbs.h"

// 0: its registrations never reached libibverbs, but for a few; 1: they did.
extern "C" int register_messages() {
  ibv_pd* pd = ibv_alloc_pd(fake_open_device());
  for (int i = 0; i < 1000; ++i) {
    void* buffer = malloc(5000);
    ibv_mr* mr = ibv_reg_mr(pd, buffer, 5000, IBV_ACCESS_LOCAL_WRITE);
    if (mr == nullptr || fake_may_use(pd, mr->lkey, buffer, 5000, IBV_ACCESS_LOCAL_WRITE) != 1 ||
        ibv_dereg_mr(mr) != 0) {
      return 2;
    }
    free(buffer);
  }
  const bool few = fake_books().registered < 64;
  return ibv_dealloc_pd(pd) != 0 ? 2 : few ? 0 : 1;
}
