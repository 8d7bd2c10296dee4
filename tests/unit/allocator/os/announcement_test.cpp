// Over real sockets: what a process announces to a watcher, and names that one process at a time
// may hold.
#include "allocator/os/announcement.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "allocator/os/clock.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"

namespace rdmalloc {
namespace {

std::string own_name(const char* of) {
  return "rdmalloc-test-" + std::to_string(getpid()) + "-" + of;
}

os::Text as_text(const std::string& from) { return {from.data(), from.size()}; }

int listen_at(const std::string& name) {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  REQUIRE(bind(socket, reinterpret_cast<sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0);
  return socket;
}

// Claims the name in a child, which keeps it until released.
bool child_claims(const std::string& name) {
  return test::run_child([&] { return os::claim_name(as_text(name)); }).exited_well();
}

}  // namespace

TEST_CASE("words and a descriptor reach the listener") {
  const std::string name = own_name("words");
  const int socket = listen_at(name);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(os::announce(as_text(name), os::text("/a/report"), ends[1]));
  char words[64] = {};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec content = {words, sizeof words};
  msghdr message = {};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  REQUIRE(recvmsg(socket, &message, 0) == 9);
  CHECK(std::string(words) == "/a/report");
  int arrived = -1;
  memcpy(&arrived, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof arrived);
  REQUIRE(write(arrived, "x", 1) == 1);
  char got = 0;
  CHECK(read(ends[0], &got, 1) == 1);
  for (const int fd : {arrived, ends[0], ends[1], socket}) close(fd);
}

TEST_CASE("an absent listener and a busy one are not waited for long") {
  CHECK_FALSE(os::announce(os::text("rdmalloc-test-nobody"), os::text("x"), 0));
  const std::string name = own_name("deaf");
  const int socket = listen_at(name);
  const uint64_t begin = os::now_ns();
  bool is_sent = true;
  for (int i = 0; is_sent && i < 100000; ++i) {
    is_sent = os::announce(as_text(name), os::text("x"), STDIN_FILENO);
  }
  CHECK_FALSE(is_sent);
  CHECK(os::now_ns() - begin < 20'000'000'000);
  close(socket);
}

TEST_CASE("one process has a name at a time, until it ends") {
  const std::string name = own_name("claim");
  CHECK(child_claims(name));
  CHECK(child_claims(name));
  CHECK(os::claim_name(as_text(name)));
  CHECK_FALSE(child_claims(name));
  CHECK_FALSE(os::claim_name(as_text(name)));
  CHECK(os::claim_name(as_text(name + "x")));
}

}  // namespace rdmalloc
