// The document of a study as the page and the plots read it: tolerant of all that may be missing,
// and the choices that both must make alike (colours, which run stands for a configuration, which
// samples are shown).
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

// UTF-8 without what a browser, a terminal or gnuplot would obey instead of showing: control
// characters but the newline and the tab, line separators, and what turns the direction of text.
std::string clean(const std::string& text);

// Members of an object, texts cleaned, or what stands for "not known" when they are missing or of a
// wrong type.
Figure figure(const Json& object, const char* key);
std::string text(const Json& object, const char* key);
bool flag(const Json& object, const char* key);
const Json& list(const Json& object, const char* key);
const Json& member(const Json& object, const char* key);              // null when missing
std::vector<std::string> texts(const Json& object, const char* key);  // those of a list

// Colours that people with any colour vision tell apart, on white and on dark ground (Okabe and
// Ito's set, without its yellow, which paper swallows). Lines and marks differ in form, too.
struct Look {
  const char* light;
  const char* dark;
  const char* dash;    // ECharts' name
  const char* symbol;  // ECharts' name
  int gnuplot_dash;
  int gnuplot_point;
};

struct Measure {
  const char* key;   // in a series: KEY_bytes
  const char* peak;  // in a run
  const char* name;
  Look look;
};
inline constexpr size_t kMeasures = 5;
enum : size_t { kResident, kLive, kHeld, kPinned, kOverflow };
const std::array<Measure, kMeasures>& measures();

struct Configuration {
  std::string name, label, allocator;
  bool pinned = false;
  Figure cap;
  Look look = {};
};
// Those of the document, and those that only runs name. Each kind has its colours: other
// allocators, rdmalloc, and a ramp for its caps.
std::vector<Configuration> configurations_of(const Json& study);
size_t index_of(const std::vector<Configuration>& configurations, const std::string& name);

// Memory over time in one run. A measure is empty when it is not known, or as long as `seconds`.
struct Series {
  size_t configuration = 0;
  int64_t repeat = 0;
  bool shown = false;  // stands for its configuration where only one run is drawn
  size_t samples = 0;  // that were taken: the document may have fewer
  std::vector<double> seconds;
  std::array<std::vector<Figure>, kMeasures> bytes;
};
std::vector<Series> series_of(const Json& study, const std::vector<Configuration>& configurations);

// Which samples to draw, in order: all when there are at most `limit`; else the highest and lowest
// of each measure in equal stretches of the run, so that no peak is lost, and both ends.
inline constexpr size_t kShownSamples = 1200;
std::vector<size_t> thinned(const Series& series, size_t limit = kShownSamples);

double median(std::vector<double> values);  // 0 of none

// The command as a shell would take it.
std::string command_line(const Json& study);

// At most `letters` of `text`, the last one an ellipsis where there were more.
std::string shortened(const std::string& text, size_t letters);

// What bytes are shown in.
struct Unit {
  double bytes;
  const char* name;
};
Unit unit_for(double most_bytes);

}  // namespace rdmalloc::cli::report
