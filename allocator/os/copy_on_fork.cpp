#include "allocator/os/copy_on_fork.h"

#include <linux/netlink.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>

namespace rdmalloc::os {
namespace {

// From rdma/rdma_netlink.h, which this layer does not depend on.
constexpr uint16_t kGetSystem = 5 << 10 | 6;  // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET
constexpr uint16_t kCopyOnFork = 93;          // RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK

bool is_new_enough() {
  utsname names{};
  if (uname(&names) != 0) return false;
  char* rest = nullptr;
  const unsigned long version = strtoul(names.release, &rest, 10);
  const unsigned long patchlevel = *rest == '.' ? strtoul(rest + 1, nullptr, 10) : 0;
  return version > 5 || (version == 5 && patchlevel >= 12);
}

// Reads the attribute from the answer to one message; kernels that do not know it leave it out.
bool says_so(const char* answer, size_t size) {
  nlmsghdr header{};
  if (size < sizeof header) return false;
  memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type != kGetSystem || header.nlmsg_len > size) return false;
  for (size_t at = NLMSG_HDRLEN; at + NLA_HDRLEN < header.nlmsg_len;) {
    nlattr attribute{};
    memcpy(&attribute, answer + at, sizeof attribute);
    if (attribute.nla_type == kCopyOnFork) return answer[at + NLA_HDRLEN] != 0;
    if (attribute.nla_len < NLA_HDRLEN) return false;
    at += NLA_ALIGN(attribute.nla_len);
  }
  return false;
}

// The kernel has answered by the time the message is sent.
bool rdma_says_so() {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA);
  if (fd < 0) return false;
  nlmsghdr question{};
  question.nlmsg_len = sizeof question;
  question.nlmsg_type = kGetSystem;
  question.nlmsg_flags = NLM_F_REQUEST;
  char answer[512];
  ssize_t size = send(fd, &question, sizeof question, 0);
  if (size > 0) size = recv(fd, answer, sizeof answer, 0);
  ::close(fd);
  return size > 0 && says_so(answer, static_cast<size_t>(size));
}

}  // namespace

bool copies_pinned_at_fork() {
  static constinit std::atomic<int> known{-1};
  int copies = known.load(std::memory_order_relaxed);
  if (copies < 0) {
    copies = is_new_enough() || rdma_says_so() ? 1 : 0;
    known.store(copies, std::memory_order_relaxed);
  }
  return copies != 0;
}

}  // namespace rdmalloc::os
