#include "allocator/os/announcement.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include "allocator/os/confinement.h"
#include "allocator/os/descriptor.h"
#include "allocator/os/system_call.h"

namespace rdmalloc::os {
namespace {

// Keeps clear of the lowest descriptors, which some programs count on.
constexpr int kClaimDescriptor = 201;
constexpr timeval kPatience = {0, 200'000};

// An abstract socket address: it begins with a zero byte and is in no file system.
class Address {
 public:
  explicit Address(Text name) {
    const size_t length = name.size < kLongestSocketName ? name.size : kLongestSocketName;
    address_.sun_family = AF_UNIX;
    memcpy(address_.sun_path + 1, name.data, length);
    size_ = offsetof(sockaddr_un, sun_path) + 1 + length;
  }
  sockaddr_un* get() { return &address_; }
  size_t size() const { return size_; }

 private:
  sockaddr_un address_ = {};
  size_t size_ = 0;
};

int make_socket() {
  if (is_confined()) return -1;
  return static_cast<int>(system_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

bool send(int socket, Address* to, Text words, int descriptor) {
  iovec content = {const_cast<char*>(words.data), words.size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message = {};
  message.msg_name = to->get();
  message.msg_namelen = static_cast<socklen_t>(to->size());
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  long sent = -EINTR;
  while (sent == -EINTR) sent = system_call(SYS_sendmsg, socket, word(&message), MSG_NOSIGNAL);
  return sent == static_cast<long>(words.size);
}

}  // namespace

bool announce(Text name, Text words, int descriptor) {
  const int socket = make_socket();
  if (socket < 0) return false;
  (void)system_call(SYS_setsockopt, socket, SOL_SOCKET, SO_SNDTIMEO, word(&kPatience),
                    sizeof kPatience);
  Address to(name);
  const bool is_sent = send(socket, &to, words, descriptor);
  close_file(socket);
  return is_sent;
}

bool claim_name(Text name) {
  int socket = make_socket();
  if (socket >= 0) socket = move_descriptor(socket, kClaimDescriptor);
  if (socket < 0) return true;
  Address own(name);
  const long status = system_call(SYS_bind, socket, word(own.get()), static_cast<long>(own.size()));
  if (status == 0) return true;
  close_file(socket);
  return status != -EADDRINUSE;
}

}  // namespace rdmalloc::os
