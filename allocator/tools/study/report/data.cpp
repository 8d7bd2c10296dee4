#include "allocator/tools/study/report/data.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "allocator/tools/text.h"

namespace rdmalloc::cli::report {

const Json& member(const Json& object, const char* key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

namespace {

Figure as_figure(const Json& value) {
  if (!value.is_number()) return {};
  const auto number = value.get<double>();
  return std::isfinite(number) ? Figure(number) : Figure();
}

constexpr Look kOthers[] = {{"#444444", "#c8c8c8", 1, 7},
                            {"#d55e00", "#f07c28", 1, 5},
                            {"#009e73", "#1fc196", 1, 9},
                            {"#cc79a7", "#e08fbe", 1, 13}};
constexpr Look kOurs[] = {{"#56b4e9", "#8fd0fa", 1, 11}, {"#0072b2", "#3fa0e0", 1, 15}};
constexpr Look kCaps[] = {{"#5e3c00", "#8a6420", 2, 8},  {"#7b5000", "#a07628", 2, 12},
                          {"#986400", "#b58a30", 2, 6},  {"#b57a00", "#c99e3c", 2, 4},
                          {"#d09010", "#dfb24c", 2, 10}, {"#e6a817", "#f7c95c", 2, 14}};

constexpr std::array kDashes{"solid", "dashed", "dotted"};
constexpr std::array kMarks{"rect", "circle", "triangle", "down", "diamond", "pentagon"};

// One look of a set; beyond its end the same colours repeat with other dashes.
template <size_t kCount>
Look look_in(const Look (&looks)[kCount], size_t index) {
  Look look = looks[index % kCount];
  look.dash = (look.dash - 1 + index / kCount) % kDashes.size() + 1;
  return look;
}

void give_looks(std::vector<Configuration>* all) {
  size_t others = 0, caps = 0, ours = 0;
  for (Configuration& one : *all) {
    if (one.allocator != "rdmalloc")
      one.look = look_in(kOthers, others++);
    else if (one.cap)
      one.look = look_in(kCaps, caps++);
    else
      one.look = look_in(kOurs, one.pinned + 2 * (ours++ / 2));
  }
}

// Whether the three bytes at `at` are a control character for line breaks or text direction: U+2028
// to U+202E, U+2066 to U+2069.
bool is_obeyed(const std::string& text, size_t at) {
  if (text.compare(at, 2, "\xe2\x80") == 0 && at + 2 < text.size()) {
    return text[at + 2] >= '\xa8' && text[at + 2] <= '\xae';
  }
  return text.compare(at, 2, "\xe2\x81") == 0 && at + 2 < text.size() && text[at + 2] >= '\xa6' &&
         text[at + 2] <= '\xa9';
}

}  // namespace

Figure figure(const Json& object, const char* key) { return as_figure(member(object, key)); }

std::string clean(const std::string& text) {
  // A round trip through JSON makes it valid UTF-8.
  const std::string valid =
      Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  const std::string instead = "\xef\xbf\xbd";
  std::string result;
  for (size_t i = 0; i < valid.size(); ++i) {
    const char c = valid[i];
    const auto byte = static_cast<unsigned char>(c);  // char is signed on some machines
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    if (is_obeyed(valid, i)) {
      result += instead;
      i += 2;
    } else if (control) {
      result += instead;
    } else {
      result += c;
    }
  }
  return result;
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? clean(value.get<std::string>()) : std::string();
}

std::vector<std::string> texts(const Json& object, const char* key) {
  std::vector<std::string> all;
  for (const Json& value : list(object, key)) {
    if (value.is_string()) all.push_back(clean(value.get<std::string>()));
  }
  return all;
}

bool flag(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_boolean() && value.get<bool>();
}

const Json& list(const Json& object, const char* key) {
  static const Json empty = Json::array();
  const Json& value = member(object, key);
  return value.is_array() ? value : empty;
}

const std::array<Measure, kMeasures> kAllMeasures = {{
    {"resident", "peak_resident_bytes", {"#444444", "#c8c8c8", 1, 7}},
    {"live", "peak_live_bytes", {"#009e73", "#1fc196", 1, 13}},
    {"held", "peak_held_bytes", {"#0072b2", "#3fa0e0", 1, 9}},
    {"pinned", "peak_pinned_bytes", {"#e69f00", "#f2b632", 2, 5}},
    {"overflow", "peak_overflow_bytes", {"#d55e00", "#f07c28", 3, 11}},
}};

// gnuplot's dashes are 1, 2, 3; its points from 4 on are pairs, an outline and a filled mark.
const char* dash_name(const Look& look) { return kDashes.at(look.dash - 1); }
const char* mark_name(const Look& look) { return kMarks.at(look.mark / 2 - 2); }

std::vector<Configuration> configurations_of(const Json& study) {
  std::vector<Configuration> all;
  const auto known = [&](const std::string& name) { return index_of(all, name) < all.size(); };
  for (const Json& entry : list(study, "configurations")) {
    Configuration one{text(entry, "name"),   text(entry, "label"),       text(entry, "allocator"),
                      flag(entry, "pinned"), figure(entry, "cap_bytes"), {}};
    if (one.label.empty()) one.label = one.name;
    if (!known(one.name)) all.push_back(one);
  }
  for (const char* where : {"runs", "series"}) {
    for (const Json& entry : list(study, where)) {
      const std::string name = text(entry, "configuration");
      if (!known(name)) all.push_back({name, name, "", false, {}, {}});
    }
  }
  give_looks(&all);
  return all;
}

size_t index_of(const std::vector<Configuration>& configurations, const std::string& name) {
  size_t index = 0;
  while (index < configurations.size() && configurations[index].name != name) ++index;
  return index;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

namespace {

// A sample without its time is useless, so `seconds` decides how many there are. Times increase.
Series read_series(const Json& entry) {
  Series series;
  series.repeat = static_cast<int64_t>(figure(entry, "repeat").value_or(0));
  std::vector<size_t> kept;
  const Json& times = list(entry, "seconds");
  for (size_t i = 0; i < times.size(); ++i) {
    const Figure at = as_figure(times[i]);
    if (!at || (!series.seconds.empty() && *at < series.seconds.back())) continue;
    series.seconds.push_back(*at);
    kept.push_back(i);
  }
  for (size_t m = 0; m < kMeasures; ++m) {
    const Json& values = list(entry, (std::string(kAllMeasures[m].key) + "_bytes").c_str());
    std::vector<Figure> bytes;
    bool any = false;
    for (const size_t i : kept) {
      bytes.push_back(i < values.size() ? as_figure(values[i]) : Figure());
      any = any || bytes.back();
    }
    if (any) series.bytes[m] = std::move(bytes);
  }
  return series;
}

const Json& run_of(const Json& study, const std::string& configuration, int64_t repeat) {
  for (const Json& run : list(study, "runs")) {
    if (text(run, "configuration") == configuration &&
        static_cast<int64_t>(figure(run, "repeat").value_or(0)) == repeat) {
      return run;
    }
  }
  static const Json nothing;
  return nothing;
}

// The run with the median time represents its configuration: a mean of runs would be a curve that
// no run had. A failed run is used only if all failed.
void choose_shown(const Json& study, const std::vector<Configuration>& configurations,
                  std::vector<Series>* all) {
  for (size_t c = 0; c < configurations.size(); ++c) {
    struct Candidate {
      bool failed;
      double seconds;
      Series* series;
    };
    std::vector<Candidate> candidates;
    for (Series& one : *all) {
      if (one.configuration != c || one.seconds.empty()) continue;
      const Json& run = run_of(study, configurations[c].name, one.repeat);
      const auto taken =
          static_cast<size_t>(std::clamp(figure(run, "samples").value_or(0), 0.0, 1e12));
      one.samples = std::max(one.seconds.size(), taken);
      candidates.push_back({!flag(run, "ok"), figure(run, "seconds").value_or(0), &one});
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
      return a.failed != b.failed ? b.failed : a.seconds < b.seconds;
    });
    size_t good = 0;
    while (good < candidates.size() && !candidates[good].failed) ++good;
    const size_t among = good > 0 ? good : candidates.size();
    if (among > 0) candidates[(among - 1) / 2].series->shown = true;
  }
}

bool plain_for_a_shell(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string("_-./=:,+@%").find(c) != std::string::npos;
}

std::string quoted(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain_for_a_shell)) return word;
  return "'" + escaped_by(word, {{'\'', "'\\''"}}) + "'";
}

}  // namespace

std::vector<Series> series_of(const Json& study, const std::vector<Configuration>& configurations) {
  std::vector<Series> all;
  for (const Json& entry : list(study, "series")) {
    Series series = read_series(entry);
    series.configuration = index_of(configurations, text(entry, "configuration"));
    if (series.configuration < configurations.size()) all.push_back(std::move(series));
  }
  std::ranges::stable_sort(all, {}, &Series::configuration);
  choose_shown(study, configurations, &all);
  return all;
}

std::string command_line(const Json& study) {
  std::string line;
  for (const std::string& word : texts(study, "command")) {
    line += (line.empty() ? "" : " ") + quoted(word);
  }
  return line;
}

std::string shortened(const std::string& text, size_t letters) {
  size_t seen = 0, end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool first_byte = (text[i] & 0xc0) != 0x80;
    if (first_byte && ++seen == letters) end = i;
  }
  return seen > letters ? text.substr(0, end) + "\xe2\x80\xa6" : text;
}

Unit unit_for(double most_bytes) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  return most_bytes >= 10 * kGiB ? Unit{kGiB, "GiB"} : Unit{kMiB, "MiB"};
}

}  // namespace rdmalloc::cli::report
