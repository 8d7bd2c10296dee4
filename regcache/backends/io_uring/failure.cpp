#include <errno.h>
#include <string.h>

#include "allocator/message.h"
#include "allocator/os/error_text.h"
#include "allocator/os/limits.h"
#include "regcache/backends/io_uring/backend.h"

namespace rdmalloc {
namespace {

// May be called inside malloc: no stdio, no strerror().
int say(const char* sentence, int status, char* why, size_t size) {
  Message().add(sentence).copy_to(why, size);
  return status;
}

int explain_out_of_memory(IoUringStep step, size_t length, char* why, size_t size) {
  const os::LockLimit limit = os::lock_limit();
  Message message;
  message.add("the kernel refused ");
  if (step == IoUringStep::kBuffer) {
    message.add("to pin ").add_size(length).add(" for io_uring: ");
  } else {
    message.add("memory for a ring or its table: ");
  }
  if (limit.effective() == os::kNoLimit) {
    message.add("it is out of memory (no limit on locked memory applies)").copy_to(why, size);
    return RDM_SYSTEM;
  }
  message.add("the limit on locked memory is ")
      .add_size(limit.effective())
      .add(
          ", and what all processes of this user pin for io_uring counts together: raise it "
          "(ulimit "
          "-l unlimited; memlock in /etc/security/limits.conf; LimitMEMLOCK=infinity), or give "
          "CAP_IPC_LOCK (setcap cap_ipc_lock+ep PROGRAM)")
      .copy_to(why, size);
  return RDM_OUT_OF_BUDGET;
}

int explain_any(IoUringStep step, int error, char* why, size_t size) {
  static constexpr const char* kTried[] = {
      "setting up a ring failed: ", "registering a table of buffers failed: ",
      "the slots of the ring's table cannot be used: ", "registering with the ring failed: "};
  Message().add(kTried[static_cast<int>(step)]).add(os::error_text(error)).copy_to(why, size);
  return RDM_SYSTEM;
}

}  // namespace

int explain_io_uring_failure(IoUringStep step, int error, size_t length, char* why, size_t size) {
  const bool setup = step == IoUringStep::kSetup;
  switch (error) {
    case ENOMEM:
      return explain_out_of_memory(step, length, why, size);
    case EEXIST:
      if (step == IoUringStep::kBuffer) return RDM_BACKEND_LATER;
      return say(
          "the ring was set up for a single issuer (IORING_SETUP_SINGLE_ISSUER): open the domain "
          "in the thread that submits to it",
          RDM_INVALID, why, size);
    case EFAULT:
      if (step != IoUringStep::kBuffer) break;
      return say(
          "some of the range is not mapped or not writable, or belongs to a file that the kernel "
          "does "
          "not pin: io_uring registers memory that it may write to, in RAM (anonymous, tmpfs, "
          "hugetlbfs)",
          RDM_SYSTEM, why, size);
    case EBUSY:
      return say(
          "the ring has a table of buffers already: name the slots that the domain may use in "
          "first_slot and slots, or open the domain before io_uring_register_buffers",
          RDM_INVALID, why, size);
    case EBADF:
      // Threads may have their own descriptor tables, so another thread may still have it open.
      return say("the ring's descriptor is not open",
                 step == IoUringStep::kBuffer ? RDM_SYSTEM : RDM_INVALID, why, size);
    case EOPNOTSUPP:
      if (setup) break;
      if (step == IoUringStep::kBuffer) {
        return say(
            "some of the range belongs to a file that the kernel does not pin (before Linux 6.5 "
            "also System V segments and what dlopen() maps), or the descriptor is no longer one "
            "of an io_uring",
            RDM_SYSTEM, why, size);
      }
      return say("the descriptor is not one of an io_uring", RDM_INVALID, why, size);
    case ENXIO:
      return say(
          "the ring has no table of buffers: register one with "
          "io_uring_register_buffers_sparse(), or leave slots at 0 and the domain does it",
          RDM_INVALID, why, size);
    case EINVAL:
      if (step == IoUringStep::kSlots) {
        return say("the ring's table of buffers has fewer slots than first_slot + slots",
                   RDM_INVALID, why, size);
      }
      if (step == IoUringStep::kTable) {
        return say("this kernel has no sparse tables of buffers: Linux 5.19 or newer is needed",
                   RDM_UNSUPPORTED, why, size);
      }
      if (step == IoUringStep::kBuffer) {
        return say(
            "the kernel refuses the range (EINVAL): before Linux 6.5 all of it must lie in one "
            "file, or be anonymous; register its parts",
            RDM_SYSTEM, why, size);
      }
      break;
    case EACCES:
      return say(
          "the ring's restrictions (io_uring_register_restrictions) do not allow what is needed: "
          "IORING_REGISTER_BUFFERS2 and IORING_REGISTER_BUFFERS_UPDATE",
          RDM_INVALID, why, size);
    case EPERM:
    case ENOSYS:
      return say(
          "io_uring is forbidden here: set sysctl kernel.io_uring_disabled=0, or, in a container, "
          "run it with a seccomp profile that allows io_uring (docker run --security-opt "
          "seccomp=unconfined ...)",
          RDM_UNSUPPORTED, why, size);
    case EAGAIN:
      if (!setup) break;
      return say(
          "no thread can be started for a ring of our own: raise the limit on processes (ulimit "
          "-u), or give a ring",
          RDM_SYSTEM, why, size);
    case EMFILE:
      return say("the limit on open files is 0: raise it (ulimit -n)", RDM_SYSTEM, why, size);
    default:
      break;
  }
  return explain_any(step, error, why, size);
}

}  // namespace rdmalloc
