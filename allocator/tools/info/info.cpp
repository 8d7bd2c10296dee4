#include "allocator/tools/info/info.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "allocator/limits/budget.h"
#include "allocator/limits/huge_page_watch.h"
#include "allocator/os/memory.h"
#include "allocator/tools/doctor/probe.h"
#include "allocator/tools/info/kernel_abilities.h"
#include "allocator/tools/info/system_facts.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/library.h"
#include "allocator/tools/run/option_flags.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

// An option as the library would read it here.
struct OptionInForce {
  const OptionInfo* option = nullptr;
  std::string value;
  std::string source;    // default, environment, or why the environment was ignored
  bool is_size = false;  // `bytes` is the value in bytes here
  uint64_t bytes = 0;
};

struct Findings {
  std::string library;
  ProbeResult probe;
  std::vector<OptionInForce> options;
  std::string warning;  // what the library would complain about
  std::vector<NumaNode> nodes;
  std::string huge_pages;
  std::vector<Ability> abilities;
};

std::vector<OptionInForce> options_in_force(const Options& loaded) {
  Budget budget;
  budget.boot_and_look(loaded);
  std::vector<OptionInForce> out;
  for (size_t i = 0; i < kOptionCount; ++i) {
    const OptionInfo& option = kOptions[i];
    OptionInForce entry{&option, option.fallback, "default", option.type == OptionType::kAmount, 0};
    const char* given = getenv(variable_name(option).c_str());
    if (given != nullptr) {
      const bool good = is_valid(option.type, os::text(given));
      entry.source = good ? "environment" : "default, for the environment's is malformed";
      if (good) entry.value = given;
    }
    if (entry.is_size) entry.bytes = budget.resolve(loaded.amount(static_cast<OptionId>(i)));
    out.push_back(entry);
  }
  return out;
}

// What huge=auto would choose on this machine at this moment.
std::string huge_pages(const Options& options) {
  HugePageWatch huge;
  huge.boot(options.choice(OptionId::huge));
  const size_t page = os::page_size_of(os::PageKind::kTransparentHuge);
  const size_t bytes = page + HugePageWatch::trial();
  void* const place = huge.is_on() ? os::reserve(bytes, page) : nullptr;
  if (place == nullptr) return huge.text();
  const auto measure = [&](size_t offset, os::PageKind kind) {
    void* const at = static_cast<char*>(place) + offset;
    if (ok(os::open(at, page, kind))) (void)huge.populate(kind, at, page);
  };
  measure(0, os::PageKind::kBase);
  for (size_t at = page; at < bytes; at += page) {
    measure(at, os::PageKind::kTransparentHuge);
  }
  return huge.text();
}

Findings gather() {
  Findings findings;
  Options options;
  options.load();
  findings.warning = options.warning();
  findings.options = options_in_force(options);
  findings.nodes = numa_nodes();
  findings.huge_pages = huge_pages(options);
  findings.abilities = kernel_abilities();
  try {
    findings.library = find_library();
    findings.probe = run_probe(findings.library);
  } catch (const Refusal& refusal) {
    findings.probe.failure = refusal.what();
  }
  return findings;
}

ordered_json options_json(const Findings& findings) {
  ordered_json list = ordered_json::array();
  for (const OptionInForce& entry : findings.options) {
    ordered_json option = {
        {"name", entry.option->name},       {"variable", variable_name(*entry.option)},
        {"flag", flag_name(*entry.option)}, {"value", entry.value},
        {"source", entry.source},           {"default", entry.option->fallback},
        {"meaning", entry.option->help}};
    if (entry.is_size) option["bytes"] = entry.bytes;
    list.push_back(option);
  }
  return list;
}

ordered_json to_json(const Findings& findings) {
  const ProbeResult& probe = findings.probe;
  ordered_json out = {{"version", RDMALLOC_VERSION},
                      {"engine",
                       {{"name", "jemalloc"},
                        {"version", RDMALLOC_JEMALLOC_VERSION},
                        {"took", probe.took()},
                        {"allocations", probe.asked},
                        {"allocations_in_window", probe.in_window},
                        {"threads", probe.threads},
                        {"failure", probe.failure}}},
                      {"library", findings.library},
                      {"kernel", kernel_version()},
                      {"page_size", os::page_size()},
                      {"huge_pages", findings.huge_pages},
                      {"budget_limited_by", probe.limited_by},
                      {"warning", findings.warning}};
  for (const char* key : {"window_bytes", "budget_bytes", "memory_cap_bytes"}) {
    const auto found = probe.stats.find(key);
    if (found != probe.stats.end()) out[key] = found->second;
  }
  out["kernel_abilities"] = ordered_json::array();
  for (const Ability& ability : findings.abilities) {
    out["kernel_abilities"].push_back({{"name", ability.name},
                                       {"since", ability.since},
                                       {"works", ability.works()},
                                       {"error", ability.error},
                                       {"without", ability.without}});
  }
  out["options"] = options_json(findings);
  out["numa_nodes"] = ordered_json::array();
  for (const NumaNode& node : findings.nodes) {
    out["numa_nodes"].push_back(
        {{"node", node.index}, {"memory_bytes", node.memory}, {"processors", node.processors}});
  }
  return out;
}

void line(const char* name, const std::string& value) { printf("%-12s %s\n", name, value.c_str()); }

std::string size_of(const ProbeResult& probe, const char* key) {
  const auto found = probe.stats.find(key);
  return found == probe.stats.end() ? "unknown" : size_text(found->second);
}

void print_probe(const ProbeResult& probe) {
  if (!probe.failure.empty()) {
    line("allocations", "unknown: " + probe.failure);
    return;
  }
  line("allocations", std::to_string(probe.in_window) + " of " + std::to_string(probe.asked) +
                          " in the window, on " + std::to_string(probe.threads + 1) +
                          " threads and before the first constructor");
  line("window", size_of(probe, "window_bytes"));
  line("budget", size_of(probe, "budget_bytes") + " may be pinned, limited by " + probe.limited_by);
  line("memory cap", size_of(probe, "memory_cap_bytes"));
}

// Includes the kernel version that adds a missing ability.
std::string names_of(const std::vector<Ability>& abilities, bool works) {
  std::vector<std::string> names;
  for (const Ability& ability : abilities) {
    if (ability.works() != works) continue;
    names.push_back(ability.name);
    if (!works) names.back() += " (Linux " + ability.since + ": " + strerror(ability.error) + ")";
  }
  return names.empty() ? "nothing of these" : joined(names);
}

void print_options(const std::vector<OptionInForce>& options) {
  printf("options\n");
  for (const OptionInForce& entry : options) {
    std::string value = entry.value.empty() ? "none" : entry.value;
    if (entry.is_size) value += " = " + size_text(entry.bytes);
    printf("  %-22s %-28s %s\n", variable_name(*entry.option).c_str(), value.c_str(),
           entry.source.c_str());
  }
}

void print_text(const Findings& findings) {
  line("version", RDMALLOC_VERSION);
  line("engine", "jemalloc " RDMALLOC_JEMALLOC_VERSION);
  line("library", findings.library.empty() ? "not found" : findings.library);
  print_probe(findings.probe);
  line("page size", size_text(os::page_size()));
  line("huge pages", findings.huge_pages);
  line("kernel", kernel_version());
  line("  has", names_of(findings.abilities, true));
  line("  lacks", names_of(findings.abilities, false));
  for (const NumaNode& node : findings.nodes) {
    line(("node " + std::to_string(node.index)).c_str(),
         size_text(node.memory) + ", " +
             count_text(static_cast<uint64_t>(node.processors), "processor"));
  }
  print_options(findings.options);
  if (!findings.warning.empty()) printf("%s\n", findings.warning.c_str());
}

}  // namespace

int info(bool json) {
  const Findings findings = gather();
  if (json) {
    puts(to_json(findings).dump(2).c_str());
  } else {
    print_text(findings);
  }
  return findings.probe.took() ? kExitOk : kExitProblem;
}

}  // namespace rdmalloc::cli
