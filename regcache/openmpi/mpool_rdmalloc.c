/* mca_mpool_rdmalloc.so: a memory pool of Open MPI whose memory comes from rdmalloc's window. It
 * serves the requests of MPI_Alloc_mem and of Open MPI's own users of pools that have no hint, and
 * requests that name it in the info key mpool_hints:
 *
 *   mpool=rdmalloc                 memory of the window
 *   mpool=rdmalloc,exposed=true    memory that peers may be given keys to (RDM_EXPOSED)
 *
 * For Open MPI 4.1 (interface 3.0 of the framework) and 5.x (3.1, without fault-tolerance events),
 * with a build for each. Open MPI finds it with --mca mca_base_component_path. It links nothing of
 * ours: it looks for rdmalloc in the process, and withdraws if malloc is not rdmalloc's. */
#define OPAL_DISABLE_ENABLE_MEM_DEBUG 1 /* keep malloc as it is */
#include "opal_config.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/mca/mpool/base/base.h"
#include "opal/mca/mpool/mpool.h"
#include "opal/util/output.h"
#include "rdmalloc/rdmalloc.h"

#ifdef MCA_MPOOL_BASE_VERSION_3_1_0
#define MPOOL_VERSION MCA_MPOOL_BASE_VERSION_3_1_0
#else
#define MPOOL_VERSION MCA_MPOOL_BASE_VERSION_3_0_0
#endif

enum {
  kPriority = 60,       /* above that of Open MPI's malloc */
  kNamedPriority = 100, /* like that of its other pools when named */
};

static int priority = kPriority;
static __typeof__(&rdm_alloc) alloc_from_window;
static __typeof__(&rdm_free) free_to_window;

static void* pool_alloc(mca_mpool_base_module_t* pool, size_t size, size_t align, uint32_t flags) {
  (void)pool;
  (void)flags;
  return alloc_from_window(size, align, 0);
}

static void* exposed_alloc(mca_mpool_base_module_t* pool, size_t size, size_t align,
                           uint32_t flags) {
  (void)pool;
  (void)flags;
  return alloc_from_window(size, align, RDM_EXPOSED);
}

/* malloc is rdmalloc's, or the component has withdrawn. */
static void* pool_realloc(mca_mpool_base_module_t* pool, void* address, size_t size) {
  (void)pool;
  return realloc(address, size);
}

static void pool_free(mca_mpool_base_module_t* pool, void* address) {
  (void)pool;
  free_to_window(address);
}

static void pool_finalize(mca_mpool_base_module_t* pool) { (void)pool; }

static mca_mpool_base_module_t window_pool = {
    .mpool_alloc = pool_alloc,
    .mpool_realloc = pool_realloc,
    .mpool_free = pool_free,
    .mpool_finalize = pool_finalize,
    .flags = MCA_MPOOL_FLAGS_MPI_ALLOC_MEM,
};

static mca_mpool_base_module_t exposed_pool = {
    .mpool_alloc = exposed_alloc,
    .mpool_realloc = pool_realloc,
    .mpool_free = pool_free,
    .mpool_finalize = pool_finalize,
    .flags = MCA_MPOOL_FLAGS_MPI_ALLOC_MEM,
};

/* The value of a key in a list such as "mpool=rdmalloc,exposed=true"; null when it is not there. */
static const char* hint(const char* hints, const char* key, size_t* length) {
  const size_t key_length = strlen(key);
  while (hints != NULL) {
    const char* end = strchr(hints, ',');
    const size_t whole = end != NULL ? (size_t)(end - hints) : strlen(hints);
    if (whole > key_length && hints[key_length] == '=' &&
        strncasecmp(hints, key, key_length) == 0) {
      *length = whole - key_length - 1;
      return hints + key_length + 1;
    }
    hints = end != NULL ? end + 1 : NULL;
  }
  return NULL;
}

static bool hint_is(const char* hints, const char* key, const char* wanted) {
  size_t length = 0;
  const char* value = hint(hints, key, &length);
  return value != NULL && length == strlen(wanted) && strncasecmp(value, wanted, length) == 0;
}

static void say(const char* what, const char* hints) {
  opal_output_verbose(MCA_BASE_VERBOSE_INFO, opal_mpool_base_framework.framework_output,
                      "rdmalloc mpool %s: %s", what, hints != NULL ? hints : "none given");
}

static int query(const char* hints, int* priority_out, mca_mpool_base_module_t** module) {
  size_t length = 0;
  const bool named = hint_is(hints, "mpool", "rdmalloc");
  /* Another pool is asked for by name, or by a property that only it has. */
  const bool another = !named && (hint(hints, "mpool", &length) != NULL ||
                                  hint(hints, "page_size", &length) != NULL);
  if (another) {
    say("does not match hints", hints);
    return OPAL_ERR_NOT_FOUND;
  }
  say("matches hints", hints);
  if (priority_out != NULL) *priority_out = named ? kNamedPriority : priority;
  if (module != NULL) {
    *module = hint_is(hints, "exposed", "true") ? &exposed_pool : &window_pool;
  }
  return OPAL_SUCCESS;
}

static int withdraw(const char* why) {
  opal_output_verbose(MCA_BASE_VERBOSE_INFO, opal_mpool_base_framework.framework_output,
                      "rdmalloc mpool withdraws: %s; start the program with rdmalloc run, or with "
                      "LD_PRELOAD=librdmalloc.so",
                      why);
  return OPAL_ERR_NOT_AVAILABLE;
}

static int open_component(void) {
  __typeof__(&rdm_owns) owns = (__typeof__(owns))dlsym(RTLD_DEFAULT, "rdm_owns");
  alloc_from_window = (__typeof__(alloc_from_window))dlsym(RTLD_DEFAULT, "rdm_alloc");
  free_to_window = (__typeof__(free_to_window))dlsym(RTLD_DEFAULT, "rdm_free");
  if (owns == NULL || alloc_from_window == NULL || free_to_window == NULL) {
    return withdraw("rdmalloc is not in this process");
  }
  void* probe = malloc(1);
  const bool is_malloc = probe != NULL && owns(probe) != 0;
  free(probe);
  return is_malloc ? OPAL_SUCCESS : withdraw("rdmalloc is in this process, but is not its malloc");
}

static int register_component(void);

/* The name that Open MPI looks up in the file. Not OPAL_MODULE_DECLSPEC: 5.x has none. */
extern mca_mpool_base_component_t mca_mpool_rdmalloc_component
    __attribute__((visibility("default")));
mca_mpool_base_component_t mca_mpool_rdmalloc_component = {
    .mpool_version =
        {
            MPOOL_VERSION,
            .mca_component_name = "rdmalloc",
            MCA_BASE_MAKE_VERSION(component, RDMALLOC_MAJOR, RDMALLOC_MINOR, RDMALLOC_PATCH),
            .mca_open_component = open_component,
            .mca_register_component_params = register_component,
        },
    .mpool_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .mpool_query = query,
};
#ifdef MCA_BASE_COMPONENT_INIT /* after 5.0 */
MCA_BASE_COMPONENT_INIT(opal, mpool, rdmalloc)
#endif

static int register_component(void) {
  window_pool.mpool_component = &mca_mpool_rdmalloc_component;
  exposed_pool.mpool_component = &mca_mpool_rdmalloc_component;
  (void)mca_base_component_var_register(&mca_mpool_rdmalloc_component.mpool_version, "priority",
                                        "Priority of the rdmalloc pool where no hint names a pool",
                                        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
                                        MCA_BASE_VAR_SCOPE_LOCAL, &priority);
  return OPAL_SUCCESS;
}
