#include "allocator/report/whole_file.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "allocator/os/file.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"

namespace rdmalloc {
namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/rdmalloc-whole-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const char* name) const { return path + "/" + name; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), {}));
  }
};

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool put(const std::string& path, const std::string& text, bool keep = true) {
  WholeFile file(path.c_str(), 7);
  const bool is_put =
      file.descriptor() >= 0 && os::write_all(file.descriptor(), text.data(), text.size());
  return is_put && (!keep || file.keep());
}

}  // namespace

TEST_CASE("a file is there when it is kept, and not before") {
  const Folder folder;
  const std::string path = folder / "a";
  {
    WholeFile file(path.c_str(), 7);
    REQUIRE(os::write_all(file.descriptor(), "new", 3));
    CHECK_FALSE(fs::exists(folder / "a"));
    CHECK(file.keep());
  }
  CHECK(contents(folder / "a") == "new");
  CHECK(put(folder / "a", "newer", false));
  CHECK(contents(folder / "a") == "new");
  CHECK(folder.files() == 1);
}

TEST_CASE("what a writer that was killed left is overwritten by the next for its process") {
  const Folder folder;
  const test::ChildEnd end = test::run_child([&] {
    const std::string path = folder / "a";
    WholeFile file(path.c_str(), 7);
    (void)os::write_all(file.descriptor(), "halfway", 7);
    raise(SIGKILL);
  });
  REQUIRE(end.signal() == SIGKILL);
  CHECK(folder.files() == 1);
  CHECK_FALSE(fs::exists(folder / "a"));
  CHECK(put(folder / "a", "new"));
  CHECK(folder.files() == 1);
  CHECK(contents(folder / "a") == "new");
}

TEST_CASE("a write that has no room leaves what was there") {
  const Folder folder;
  REQUIRE(put(folder / "a", "old"));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit limit = before;
  limit.rlim_cur = 10;
  signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const bool is_put = put(folder / "a", std::string(100, 'x'));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_FALSE(is_put);
  CHECK(contents(folder / "a") == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a link is written through") {
  const Folder folder;
  REQUIRE(symlink("target", (folder / "link").c_str()) == 0);
  CHECK(put(folder / "link", "new"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(contents(folder / "target") == "new");
}

TEST_CASE("a missing folder has no file") {
  CHECK_FALSE(put("/tmp/rdmalloc-no-such-folder/a", "new"));
}

}  // namespace rdmalloc
