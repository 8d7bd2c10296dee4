// A study's document as the page and the plots read it: tolerant of everything that may be missing.
// Also the choices that both must make alike (colours, which run represents a configuration).
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rdmalloc::cli::report {

using Json = nlohmann::json;
using Figure = std::optional<double>;  // nothing: not known

// UTF-8 without characters that a browser, a terminal or gnuplot would obey instead of showing:
// control characters except newline and tab, line separators, and those that change the text
// direction.
std::string clean(const std::string& text);

// Members of an object, with texts cleaned, or the value for "not known" if they are missing or of
// a wrong type.
Figure figure(const Json& object, const char* key);
std::string text(const Json& object, const char* key);
bool flag(const Json& object, const char* key);
const Json& list(const Json& object, const char* key);
const Json& member(const Json& object, const char* key);              // null when missing
std::vector<std::string> texts(const Json& object, const char* key);  // the texts of a list

// Colours that people with any colour vision can tell apart, on light and dark backgrounds (Okabe
// and Ito's set, without its yellow, which is hard to see on paper). Each has its own mark, too, so
// that no colour is needed.
struct Look {
  const char* light;
  const char* dark;
  size_t dash, mark;  // as gnuplot numbers them: see dash_name() and mark_name()
  bool is_hollow() const { return mark % 2 == 0; }  // the mark is an outline
};
const char* dash_name(const Look& look);
const char* mark_name(const Look& look);

struct Measure {
  const char* key;   // in a series: KEY_bytes
  const char* peak;  // in a run
  Look look;
};
inline constexpr size_t kMeasures = 5;
enum : size_t { kResident, kLive, kHeld, kPinned, kOverflow };
extern const std::array<Measure, kMeasures> kAllMeasures;

struct Configuration {
  std::string name, label, allocator;
  bool pinned = false;
  Figure cap;
  Look look = {};
};
// Those of the document, and those that only runs name. Each kind has its own colours: other
// allocators, rdmalloc, and a ramp for its caps.
std::vector<Configuration> configurations_of(const Json& study);
size_t index_of(const std::vector<Configuration>& configurations, const std::string& name);

// Memory over time in one run. A measure is empty if it is not known, otherwise as long as
// `seconds`.
struct Series {
  size_t configuration = 0;
  int64_t repeat = 0;
  bool shown = false;  // represents its configuration where only one run is drawn
  size_t samples = 0;  // that were taken: the document may have fewer
  std::vector<double> seconds;
  std::array<std::vector<Figure>, kMeasures> bytes;
};
// In the order of the configurations, as the tables and legends: runs take turns in the document.
std::vector<Series> series_of(const Json& study, const std::vector<Configuration>& configurations);

double median(std::vector<double> values);  // 0 if empty

// The command, quoted for a shell.
std::string command_line(const Json& study);

// At most `letters` letters of `text`; if there are more, the last is an ellipsis.
std::string shortened(const std::string& text, size_t letters);

// The unit that bytes are shown in.
struct Unit {
  double bytes;
  const char* name;
};
Unit unit_for(double most_bytes);

}  // namespace rdmalloc::cli::report
