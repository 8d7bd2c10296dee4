#include "allocator/tools/run/shm_plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "allocator/limits/options.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

using Choices = std::map<std::string, unsigned>;
const Choices kLayouts = {{"page", RDM_SHM_PAGE},
                          {"cacheline", RDM_SHM_CACHELINE},
                          {"aggregated", RDM_SHM_AGGREGATED},
                          {"mpsc", RDM_SHM_MPSC}};
const Choices kThreads = {{"single", 0}, {"multiple", RDM_SHM_MULTITHREADED}};

struct Row {
  const char* description;
  uint64_t bytes;
};

// Returns an empty string for a good value, as CLI11 expects.
std::string objection_to_number(const std::string& value) {
  Amount amount;
  if (!parse_amount({value.data(), value.size()}, &amount) || amount.unit != Amount::Unit::kBytes) {
    return "invalid value '" + value + "': use a number, such as 128 or 4K";
  }
  if (amount.value == 0) return "must be at least 1, not 0";
  if (amount.value > UINT32_MAX) return "'" + value + "' is too large";
  return {};
}

// `fallback` says what is used for a number that is 0 and not given; without it the number is
// required.
template <typename Number>
void add_number(CLI::App& command, const char* flag, Number& number, const std::string& help,
                const std::string& fallback = {}) {
  const auto keep = [&number](const std::string& value) {
    Amount amount;
    if (parse_amount({value.data(), value.size()}, &amount))
      number = static_cast<Number>(amount.value);
  };
  const bool is_required = number == 0 && fallback.empty();
  const std::string value = number == 0 ? fallback : std::to_string(number);
  const std::string rest = is_required ? "; required" : " (default " + value + ")";
  CLI::Option* option = command.add_option_function<std::string>(flag, keep, help + rest);
  option->type_name("NUMBER")->check(objection_to_number)->required(is_required);
}

void add_choice(CLI::App& command, const char* flag, std::string& word, const Choices& choices,
                const std::string& help) {
  std::vector<std::string> known;
  for (const auto& [choice, value] : choices) known.push_back(choice);
  const std::string words = joined(known, ", ", " or ");
  const auto check = [&choices, words](const std::string& given) {
    return choices.contains(given) ? "" : "invalid value '" + given + "': use " + words;
  };
  command.add_option(flag, word, words + ": " + help + " (default " + word + ")")->check(check);
}

rdm_shm_plan make_plan(const ShmPlanRequest& request) {
  char why[256] = "";
  rdm_shm_plan_options options = request.plan;
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  options.layout = kLayouts.at(request.layout);
  options.flags = kThreads.at(request.threads);
  if (request.eager_with_header) options.flags |= RDM_SHM_EAGER_WITH_HEADER;
  rdm_shm_plan plan = {};
  plan.size = sizeof plan;
  if (rdm_shm_plan_get(&options, &plan) != RDM_OK) {
    throw Refusal("shm-plan: " + std::string(why) + "; see rdmalloc shm-plan --help");
  }
  return plan;
}

std::vector<Row> rows_of(const rdm_shm_plan& plan, const std::string& layout) {
  const Row eager = {"eager freelists", plan.eager_lists};
  const Row max = {"max freelists", plan.max_lists};
  const Row rest = {"control, padding", plan.control + plan.padding};
  if (layout == "mpsc") {
    return {{"inboxes", plan.inboxes}, {"fast boxes", plan.boxes}, eager, rest};
  }
  if (layout == "aggregated") {
    const uint64_t buffers = plan.wrappers + plan.queues + plan.heads;
    return {{"FIFOs and CBs", plan.fifos + buffers}, eager, max, rest};
  }
  return {{"CB wrappers", plan.wrappers},
          {"CB queues+tails", plan.queues},
          {"CB heads", plan.heads},
          eager,
          {"FIFOs", plan.fifos},
          max,
          rest};
}

// 1234567 becomes 1,234,567.
std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

uint64_t in_millions(uint64_t bytes) { return bytes / 1'000'000 + (bytes % 1'000'000 >= 500'000); }

void print_line(const Row& row) {
  printf("  %-18s%12s%26s\n", row.description, grouped(in_millions(row.bytes)).c_str(),
         grouped(row.bytes).c_str());
}

void print_text(const ShmPlanRequest& request, const rdm_shm_plan& plan) {
  printf("procs %s, layout %s, threads %s, page size %s, cacheline %s,\n",
         grouped(request.plan.procs).c_str(), request.layout.c_str(), request.threads.c_str(),
         grouped(request.plan.page_size).c_str(), grouped(request.plan.cacheline).c_str());
  printf("eager limit %s%s, queue entries %s, chunk size %s\n\n",
         grouped(request.plan.eager_limit).c_str(), request.eager_with_header ? " with header" : "",
         grouped(request.plan.queue_entries).c_str(), grouped(request.plan.chunk_size).c_str());
  printf("  %-18s%12s%26s\n", "description", "10^6 bytes", "bytes");
  for (const Row& row : rows_of(plan, request.layout)) print_line(row);
  print_line({"total", plan.bytes});
}

ordered_json as_json(const ShmPlanRequest& request, const rdm_shm_plan& plan) {
  ordered_json rows = ordered_json::array();
  for (const Row& row : rows_of(plan, request.layout)) {
    rows.push_back({{"description", row.description},
                    {"bytes", row.bytes},
                    {"megabytes", in_millions(row.bytes)}});
  }
  return {{"procs", request.plan.procs},
          {"layout", request.layout},
          {"threads", request.threads},
          {"page_size", request.plan.page_size},
          {"cacheline", request.plan.cacheline},
          {"eager_limit", request.plan.eager_limit},
          {"eager_with_header", request.eager_with_header},
          {"queue_entries", request.plan.queue_entries},
          {"chunk_size", request.plan.chunk_size},
          {"rows", rows},
          {"bytes", plan.bytes},
          {"megabytes", in_millions(plan.bytes)}};
}

}  // namespace

void add_shm_plan_flags(CLI::App& command, ShmPlanRequest& request) {
  add_number(command, "--procs", request.plan.procs, "processes that share the segment");
  add_choice(command, "--layout", request.layout, kLayouts,
             "how circular buffers lie in it, see below");
  add_number(command, "--page-size", request.plan.page_size, "bytes of a page");
  add_number(command, "--cacheline", request.plan.cacheline, "bytes of a cache line");
  add_number(command, "--eager-limit", request.plan.eager_limit,
             "bytes of a message that an eager fragment holds");
  add_number(command, "--queue-entries", request.plan.queue_entries,
             "entries of a circular buffer");
  add_number(command, "--chunk-size", request.plan.chunk_size,
             "bytes of a message that a max fragment holds");
  add_number(command, "--eager-fragments", request.plan.eager_fragments,
             "least eager fragments of each process",
             std::to_string(RDM_SHM_EAGER_FRAGMENTS) + " for each process that there is; mpsc: " +
                 std::to_string(RDM_SHM_EAGER_FRAGMENTS_MPSC) + " in all");
  add_number(command, "--max-fragments", request.plan.max_fragments,
             "max fragments of each process; mpsc has none");
  add_number(command, "--boxes", request.plan.boxes, "mpsc: most fast boxes of each process");
  add_number(command, "--box-size", request.plan.box_size, "mpsc: bytes of a fast box's slots",
             std::to_string(RDM_SHM_BOX_SIZE) + ", or two cache lines if that is more");
  add_choice(command, "--threads", request.threads, kThreads,
             "threads of a process that send and receive; heads and tails of the aggregated layout "
             "are on lines of their own for multiple ones");
  command.add_flag("--eager-with-header", request.eager_with_header,
                   "the eager limit counts the fragment's header");
}

int shm_plan(const ShmPlanRequest& request, bool json) {
  const rdm_shm_plan plan = make_plan(request);
  if (json) {
    puts(as_json(request, plan).dump(2).c_str());
  } else {
    print_text(request, plan);
  }
  return kExitOk;
}

}  // namespace rdmalloc::cli
