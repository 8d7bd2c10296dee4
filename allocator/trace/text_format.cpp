#include "allocator/trace/text_format.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "allocator/trace/packed_format.h"

namespace rdmalloc::trace {
namespace {

constexpr char kKinds[] = {'a', 'z', 'r', 'f'};  // by EventKind
constexpr std::string_view kBlanks = " \t\r";
// Longest part of a word that a message shows.
constexpr size_t kMostShown = 60;

std::string quoted(std::string_view word) {
  std::string text = "'";
  for (const char c : word.substr(0, kMostShown)) {
    text += static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  }
  return text + (word.size() > kMostShown ? "...'" : "'");
}

[[noreturn]] void expected(const std::string& what, std::string_view word) {
  throw std::runtime_error("expected " + what +
                           (word.empty() ? ", and the line ends" : ", not " + quoted(word)));
}

// Takes the first word off the line; empty at the end of the line.
std::string_view take_word(std::string_view* line) {
  const size_t start = std::min(line->find_first_not_of(kBlanks), line->size());
  const size_t end = std::min(line->find_first_of(kBlanks, start), line->size());
  const std::string_view word = line->substr(start, end - start);
  line->remove_prefix(end);
  return word;
}

bool parse_number(std::string_view word, int base, uint64_t* number) {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, *number, base);
  return error == std::errc() && stop == end;
}

uint64_t take_number(std::string_view* line, const std::string& what, uint64_t most) {
  const std::string_view word = take_word(line);
  uint64_t number = 0;
  if (!parse_number(word, 10, &number)) expected(what, word);
  if (number > most) {
    throw std::runtime_error(what + " is too large: " + quoted(word) + ", the most is " +
                             std::to_string(most));
  }
  return number;
}

uint64_t take_size(std::string_view* line) {
  constexpr std::string_view kUnits = "KMGT";
  const std::string_view word = take_word(line);
  std::string_view digits = word;
  unsigned shift = 0;
  if (!word.empty() && kUnits.find(word.back()) != std::string_view::npos) {
    shift = 10 * static_cast<unsigned>(kUnits.find(word.back()) + 1);
    digits.remove_suffix(1);
  }
  uint64_t number = 0;
  if (!parse_number(digits, 10, &number)) expected("a size in bytes, such as 24 or 4K", word);
  if (number > kMostBytes >> shift) {
    throw std::runtime_error("the size " + quoted(word) + " is larger than any machine has");
  }
  return number << shift;
}

uint8_t to_alignment(std::string_view word) {
  uint64_t alignment = 0;
  if (!parse_number(word, 10, &alignment)) {
    expected("an alignment, 'thread', 'at' or the end of the line", word);
  }
  if (!std::has_single_bit(alignment) || std::countr_zero(alignment) > kMostAlignmentLog2) {
    throw std::runtime_error("the alignment " + quoted(word) + " is not a power of two below 2^" +
                             std::to_string(kMostAlignmentLog2 + 1));
  }
  return static_cast<uint8_t>(std::countr_zero(alignment));
}

std::string_view take_address(std::string_view* line) {
  const std::string_view word = take_word(line);
  uint64_t number = 0;
  if (!word.starts_with("0x") || !parse_number(word.substr(2), 16, &number)) {
    expected("an address, as mtrace writes it", word);
  }
  return word;
}

// mtrace writes a size of 0 as 0 and others as 0x18.
uint64_t take_hex_size(std::string_view* line) {
  std::string_view word = take_word(line);
  uint64_t number = 0;
  const std::string_view digits = word.starts_with("0x") ? word.substr(2) : word;
  if (!parse_number(digits, 16, &number) || number > kMostBytes) {
    expected("a size, as mtrace writes it", word);
  }
  return number;
}

}  // namespace

bool TextParser::parse(std::string_view line, Event* out) {
  std::string_view rest = line;
  const std::string_view word = take_word(&rest);
  if (word.empty() || word.starts_with('#')) return false;
  if (word == "@") return parse_mtrace(rest, out);
  if (word == "=") return false;  // mtrace's first and last line
  if (word != "program") return parse_event(line, out);
  if (has_events_) throw std::runtime_error("the program is to be named before the first event");
  const size_t start = rest.find_first_not_of(kBlanks);
  program_ = start == std::string_view::npos ? "" : rest.substr(start);
  while (program_.ends_with('\r')) program_.pop_back();
  return false;
}

bool TextParser::parse_event(std::string_view line, Event* out) {
  const std::string_view word = take_word(&line);
  const auto* kind = std::find(std::begin(kKinds), std::end(kKinds), word.front());
  if (word.size() != 1 || kind == std::end(kKinds)) {
    expected("a, z, r, f, program or a # comment", word);
  }
  *out = Event{};
  out->kind = static_cast<EventKind>(kind - kKinds);
  const std::string_view name = take_word(&line);
  if (name.empty()) expected("an object", name);
  out->object = makes_object(out->kind) ? add_object(name) : find_object(name);
  if (out->kind == EventKind::kFree) forget_object(name);
  if (has_size(out->kind)) out->size = take_size(&line);
  parse_rest(line, makes_object(out->kind), out);
  has_events_ = true;
  return true;
}

void TextParser::parse_rest(std::string_view line, bool may_align, Event* out) {
  std::string_view word = take_word(&line);
  if (may_align && !word.empty() && word != "thread" && word != "at") {
    out->alignment_log2 = to_alignment(word);
    word = take_word(&line);
  }
  if (word == "thread") {
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
    thread_ = static_cast<uint32_t>(take_number(&line, "the number of a thread", kMost));
    word = take_word(&line);
  }
  if (word == "at") {
    const uint64_t time = take_number(&line, "a time in nanoseconds", kMostTime);
    if (time < time_ns_) {
      throw std::runtime_error("the time " + std::to_string(time) +
                               " is before that of an earlier " + "line, " +
                               std::to_string(time_ns_));
    }
    time_ns_ = time;
    word = take_word(&line);
  }
  if (!word.empty()) expected("'thread', 'at' or the end of the line", word);
  out->thread = thread_;
  out->time_ns = time_ns_;
}

// Parses what follows the @: the caller's address, then the call.
bool TextParser::parse_mtrace(std::string_view line, Event* out) {
  std::string_view word = take_word(&line);
  if (word != "+" && word != "-" && word != "<" && word != ">" && word != "!")
    word = take_word(&line);
  if (word.size() != 1) expected("+, -, <, > or !, as mtrace writes them", word);
  *out = Event{};
  has_events_ = true;
  if (word == "!") {  // a realloc that failed: its < has no effect
    resizes_ = false;
    return false;
  }
  const std::string_view name = take_address(&line);
  const auto found = objects_.find(std::string(name));
  const bool is_known = found != objects_.end();
  if (word == "<" || word == "-") {
    if (!is_known && word == "-") ++unknown_frees_;
    resizes_ = is_known && word == "<";
    if (!is_known) return false;
    out->kind = EventKind::kFree;
    out->object = resized_ = found->second;
    objects_.erase(found);
    return word == "-";
  }
  if (word != "+" && word != ">") expected("+, -, <, > or !, as mtrace writes them", word);
  out->size = take_hex_size(&line);
  const bool resizes = word == ">" && resizes_;
  resizes_ = false;
  if (!resizes) {
    out->object = add_object(name);
    return true;
  }
  out->kind = EventKind::kResize;
  out->object = resized_;
  objects_[std::string(name)] = resized_;
  return true;
}

uint64_t TextParser::add_object(std::string_view name) {
  const auto [found, is_new] = objects_.try_emplace(std::string(name), next_object_);
  if (!is_new) {
    throw std::runtime_error("the object " + quoted(name) + " is alive: it is to be freed first");
  }
  return next_object_++;
}

uint64_t TextParser::find_object(std::string_view name) {
  const auto found = objects_.find(std::string(name));
  if (found != objects_.end()) return found->second;
  throw std::runtime_error("the object " + quoted(name) +
                           " is not alive: it was never allocated, or is freed already");
}

std::string to_text(const Event& event, const Event& before) {
  std::string line(1, kKinds[static_cast<size_t>(event.kind)]);
  line += " " + std::to_string(event.object);
  if (has_size(event.kind)) line += " " + std::to_string(event.size);
  if (makes_object(event.kind) && event.alignment_log2 != 0) {
    line += " " + std::to_string(uint64_t{1} << event.alignment_log2);
  }
  if (event.thread != before.thread) line += " thread " + std::to_string(event.thread);
  if (event.time_ns != before.time_ns) line += " at " + std::to_string(event.time_ns);
  return line;
}

}  // namespace rdmalloc::trace
