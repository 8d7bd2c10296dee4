#include "bench/support/sample_text.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <vector>

namespace rdmalloc::bench {
namespace {

// Avoids <random>'s distributions, which differ between standard libraries; the engine does not.
class Writer {
 public:
  Writer() {
    while (words_.size() < kWords) words_.push_back(word());
  }

  std::string line() {
    // Logs consist mostly of lines like earlier ones with different numbers.
    if (!frames_.empty() && below(4) != 0) return fill(frames_[below(frames_.size())]);
    std::string frame;
    for (size_t count = 4 + below(12); count > 0; --count) {
      frame += below(6) == 0 ? "#" : words_[any_word()];
      frame += count == 1 ? "\n" : " ";
    }
    frames_.push_back(frame);
    return fill(frame);
  }

 private:
  static constexpr size_t kWords = 4000;

  size_t below(size_t bound) { return engine_() % bound; }

  // Prefers the first words.
  size_t any_word() { return below(below(below(kWords) + 1) + 1); }

  std::string word() {
    std::string text;
    for (size_t length = 2 + below(9); length > 0; --length) {
      text += static_cast<char>('a' + below(below(26) + 1));
    }
    return text;
  }

  std::string fill(const std::string& frame) {
    std::string text;
    for (const char letter : frame) {
      if (letter == '#') {
        text += std::to_string(below(100'000));
      } else {
        text += letter;
      }
    }
    return text;
  }

  std::mt19937_64 engine_{1};
  std::vector<std::string> words_;
  std::vector<std::string> frames_;
};

}  // namespace

bool write_sample_text(const std::string& path, size_t bytes) {
  Writer writer;
  std::ofstream file(path, std::ios::binary);
  for (size_t written = 0; written < bytes && file;) {
    std::string line = writer.line();
    line.resize(std::min(line.size(), bytes - written));
    file << line;
    written += line.size();
  }
  file.close();
  return !file.fail();
}

}  // namespace rdmalloc::bench
