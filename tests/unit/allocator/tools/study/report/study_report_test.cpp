// What a study's report and plots make of its document: text stays literal, curves keep their
// peaks, and incomplete documents are handled.
#include <algorithm>
#include <set>

#include "allocator/tools/study/report/charts.h"
#include "allocator/tools/study/report/data.h"
#include "allocator/tools/study/report/html.h"
#include "allocator/tools/study/report/plots.h"
#include "allocator/tools/study/report/tables.h"
#include "tests/support/catch.h"

namespace rdmalloc::cli::report {
namespace {

constexpr double kMiB = 1 << 20;

Json run_of(const char* configuration, int repeat, double seconds, double peak) {
  return {{"configuration", configuration},
          {"repeat", repeat},
          {"ok", true},
          {"seconds", seconds},
          {"peak_resident_bytes", peak},
          {"outcome", "exited with 0"}};
}

Json series_of_run(const char* configuration, int repeat) {
  return {{"configuration", configuration},
          {"repeat", repeat},
          {"seconds", {0.0, 0.1}},
          {"resident_bytes", {kMiB, 2 * kMiB}},
          {"live_bytes", nullptr}};
}

// One configuration with three runs. The median time is the second's, the median peak the third's.
Json small_study() {
  Json study = {{"command", {"cc", "-c", "a b.c"}},
                {"configurations", Json::array({{{"name", "glibc"}, {"label", "GNU libc"}}})}};
  const double peaks[] = {30, 10, 20};
  for (int i = 0; i < 3; ++i) {
    study["runs"].push_back(run_of("glibc", i + 1, 1.0 + i, peaks[i] * kMiB));
    study["series"].push_back(series_of_run("glibc", i + 1));
  }
  study["summary"]["table"].push_back({{"configuration", "glibc"},
                                       {"runs_ok", 3},
                                       {"seconds", 1.5},
                                       {"on_pareto", true},
                                       {"peak_resident_bytes", 20 * kMiB}});
  return study;
}

int64_t shown_repeat(const Json& study) {
  int64_t repeat = -1;
  for (const Series& series : series_of(study, configurations_of(study))) {
    if (!series.shown) continue;
    REQUIRE(repeat == -1);
    repeat = series.repeat;
  }
  return repeat;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("text becomes no markup") {
  REQUIRE(escaped("<b a='1' c=\"2\">&amp;") == "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
}

TEST_CASE("text is made UTF-8, and what would be obeyed is replaced") {
  const std::string instead = "\xef\xbf\xbd";
  REQUIRE(clean("a\xff") == "a" + instead);
  REQUIRE(clean("a\x1b[31m\x7f") == "a" + instead + "[31m" + instead);
  REQUIRE(clean("x\xe2\x80\xa8y\xe2\x80\xaez\xe2\x81\xa6") ==
          "x" + instead + "y" + instead + "z" + instead);
  REQUIRE(clean("two\nlines\tand \xc3\xa9 \xe2\x80\x93 \xe2\x82\xac") ==
          "two\nlines\tand \xc3\xa9 \xe2\x80\x93 \xe2\x82\xac");
}

TEST_CASE("a document inside a script cannot end it, and is read back as it was") {
  const Json document = {{"name", "</script><!-- \xe2\x80\xa8 & \"quoted\""}};
  const std::string text = json_for_script(document);
  REQUIRE(text.find_first_of("<>&") == std::string::npos);
  REQUIRE(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  REQUIRE(Json::parse(text) == document);
  REQUIRE_NOTHROW(json_for_script(Json("\xff\xfe")));
}

TEST_CASE("what fills a page's name is not filled itself") {
  REQUIRE(filled("<{{a}}|{{b}}>", {{"a", "{{b}}"}, {"b", "2"}}) == "<{{b}}|2>");
  REQUIRE_THROWS_AS(filled("{{c}}", {{"a", "1"}}), std::logic_error);
  REQUIRE_THROWS_AS(filled("{{a", {{"a", "1"}}), std::logic_error);
}

TEST_CASE("the run with the median time stands for its configuration, a failed one only in need") {
  Json study = small_study();
  REQUIRE(shown_repeat(study) == 2);
  study["runs"][1]["ok"] = false;
  REQUIRE(shown_repeat(study) == 1);
  for (Json& run : study["runs"]) run["ok"] = false;
  REQUIRE(shown_repeat(study) == 2);
}

TEST_CASE("curves are in the order of the configurations, though runs take turns") {
  Json study = small_study();
  study["configurations"].push_back({{"name", "jemalloc"}, {"label", "jemalloc"}});
  for (const int repeat : {1, 2, 3}) {
    study["runs"].push_back(run_of("jemalloc", repeat, 4.0 - repeat, kMiB));
    study["series"].insert(study["series"].begin(), series_of_run("jemalloc", repeat));
  }
  for (const Plot& plot : plots_of(study)) {
    if (plot.name == "memory") REQUIRE(has(plot.script, "labels[2] = ['GNU libc', 'jemalloc']"));
  }
  const Json series = chart_document(study)["series"];
  for (size_t i = 0; i < series.size(); ++i) REQUIRE(series[i]["configuration"] == i / 3);
}

TEST_CASE("the usual configurations are told apart by their marks alone, on paper as well") {
  Json study;
  for (int i = 0; i < 12; ++i) {
    study["configurations"].push_back({{"name", std::to_string(i)},
                                       {"allocator", i < 4 ? "another" : "rdmalloc"},
                                       {"pinned", i == 5},
                                       {"cap_bytes", i > 5 ? Json(kMiB * i) : Json()}});
  }
  std::set<std::string> symbols;
  std::set<size_t> points;
  for (const Configuration& one : configurations_of(study)) {
    symbols.insert(mark_name(one.look) + std::to_string(one.look.is_hollow()));
    points.insert(one.look.mark);
  }
  REQUIRE(symbols.size() == 12);
  REQUIRE(points.size() == 12);
}

TEST_CASE("configurations are told apart by colour, mark or dashes, also in great number") {
  Json study;
  for (int i = 0; i < 24; ++i) {
    const char* allocator = i % 2 ? "rdmalloc" : "another";
    study["configurations"].push_back({{"name", std::to_string(i)},
                                       {"allocator", allocator},
                                       {"cap_bytes", i % 4 == 1 ? Json(kMiB * i) : Json()}});
  }
  std::set<std::string> looks;
  for (const Configuration& one : configurations_of(study)) {
    looks.insert(std::string(one.look.light) + dash_name(one.look) + mark_name(one.look));
  }
  REQUIRE(looks.size() >= 20);
}

TEST_CASE("the command is shown as a shell would take it") {
  REQUIRE(command_line({{"command", {"cc", "a b", "it's", "", "-O2"}}}) ==
          "cc 'a b' 'it'\\''s' '' -O2");
}

TEST_CASE("a document may lack anything, or have it of another type") {
  const Json odd[] = {
      Json(),
      Json::object(),
      Json::array(),
      Json(7),
      {{"runs", {nullptr, 1, "a", {{"phases", 3}}}}, {"series", {nullptr, {{"seconds", "x"}}}}},
      {{"configurations", {{{"name", 1}}, nullptr}}, {"summary", {{"table", {nullptr, 1}}}}},
      {{"summary", 3}, {"machine", "m"}, {"command", {1, nullptr}}}};
  for (const Json& study : odd) {
    INFO(study.dump());
    REQUIRE_NOTHROW(chart_document(study));
    REQUIRE_NOTHROW(plots_of(study));
    for (const auto& part : {answers, what_was_run, failed_runs, summary_table, runs_table,
                             phases_table, machine, notes}) {
      REQUIRE_NOTHROW(part(study));
    }
  }
}

TEST_CASE("samples that are null or missing are gaps, and one without a time is none") {
  Json study = small_study();
  study["series"][0]["seconds"] = {0.0, nullptr, 0.2, 0.3};
  study["series"][0]["resident_bytes"] = {kMiB, 2 * kMiB, nullptr};
  const Series series = series_of(study, configurations_of(study))[0];
  REQUIRE(series.seconds == std::vector<double>{0.0, 0.2, 0.3});
  REQUIRE(series.bytes[kResident] == std::vector<Figure>{kMiB, Figure(), Figure()});
  REQUIRE(series.bytes[kLive].empty());
}

TEST_CASE("a table leaves out what no run knows, and shows what one does not") {
  Json study = small_study();
  study["runs"][1]["peak_live_bytes"] = 7.25 * kMiB;
  const std::string table = runs_table(study);
  REQUIRE(has(table, "<td class=\"n\">7.25</td>"));
  REQUIRE(has(table, "<td class=\"n none\">"));
  REQUIRE(has(table, "peak live"));
  REQUIRE_FALSE(has(table, "peak held"));
  REQUIRE(has(table, "GNU libc"));
}

TEST_CASE("failed runs are named with what became of them") {
  Json study = small_study();
  REQUIRE(failed_runs(study).empty());
  study["runs"][1] = {
      {"configuration", "glibc"}, {"repeat", 2}, {"ok", false}, {"outcome", "killed by <9>"}};
  REQUIRE(failed_runs(study) == "<li>GNU libc, run 2: killed by &lt;9&gt;</li>\n");
}

TEST_CASE("a name in a plot's script is a string of one line and nothing more") {
  REQUIRE(quoted_for_gnuplot("it's `a` $(b)\n@c \\") == "'it''s `a` $(b) @c \\'");
  Json study = small_study();
  study["configurations"][0]["label"] = "x'\nset output 'y'\n`z`";
  for (const Plot& plot : plots_of(study)) {
    REQUIRE_FALSE(has(plot.script, "\nset output 'y'"));
    REQUIRE(has(plot.script, "x'' set output ''y'' `z`'"));
  }
}

TEST_CASE("there are plots of what the document has, and no others") {
  std::set<std::string> names;
  for (const Plot& plot : plots_of(small_study())) names.insert(plot.name);
  REQUIRE(names == std::set<std::string>{"memory", "measures", "tradeoff"});
}

}  // namespace rdmalloc::cli::report
