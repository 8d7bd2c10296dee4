// A plug-in linked with libibverbs, for verbs_host.cpp. Its rights are those of PLUGIN_ACCESS.
#include <stdio.h>
#include <stdlib.h>

#include "fake_libibverbs.h"

#ifndef PLUGIN_ACCESS
#define PLUGIN_ACCESS IBV_ACCESS_LOCAL_WRITE
#endif

// 0: all but a few of its registrations stayed away from libibverbs; 1: they did not.
extern "C" int register_messages() {
  ibv_pd* pd = ibv_alloc_pd(fake_open_device());
  for (int i = 0; i < 1000; ++i) {
    void* buffer = malloc(5000);
    ibv_mr* mr = ibv_reg_mr(pd, buffer, 5000, PLUGIN_ACCESS);
    if (mr == nullptr || fake_may_use(pd, mr->lkey, buffer, 5000, PLUGIN_ACCESS) != 1 ||
        ibv_dereg_mr(mr) != 0) {
      return 2;
    }
    free(buffer);
  }
  const auto registered = fake_books().registered;
  printf("%d registrations of 1000 reached libibverbs\n", static_cast<int>(registered));
  return ibv_dealloc_pd(pd) != 0 ? 2 : registered < 64 ? 0 : 1;
}
