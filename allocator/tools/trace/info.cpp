// `rdmalloc trace info`.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/json.h"
#include "allocator/tools/trace/trace.h"
#include "allocator/trace/trace_file.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;
using trace::EventKind;

// Counted from the events, because a truncated trace has no counts.
struct Sum {
  std::string program;
  bool is_truncated = false;
  trace::Counts counts;
  std::array<uint64_t, 4> of_kind{};
  uint64_t aligned = 0;
  uint64_t alive = 0;
  uint64_t alive_bytes = 0;
  std::array<uint64_t, 64> up_to{};  // requested sizes of at most 2^index, above the previous entry
};

size_t bucket_of(uint64_t size) { return size <= 1 ? 0 : std::bit_width(size - 1); }

Sum sum_up(const std::string& file) {
  trace::Reader reader(file);
  Sum sum;
  sum.program = reader.header().program;
  trace::Counts& counts = sum.counts;
  std::unordered_map<uint64_t, uint64_t> sizes;  // of live objects
  for (trace::Event event; reader.next(&event);) {
    ++counts.events;
    ++sum.of_kind[static_cast<size_t>(event.kind)];
    counts.threads = std::max<uint64_t>(counts.threads, event.thread + 1);
    counts.duration_ns = event.time_ns;
    sum.aligned += event.alignment_log2 != 0;
    uint64_t& size = sizes[event.object];
    sum.alive_bytes -= size;
    if (event.kind == EventKind::kFree) {
      sizes.erase(event.object);
      continue;
    }
    ++sum.up_to[bucket_of(event.size)];
    size = event.size;
    sum.alive_bytes += size;
    counts.peak_bytes = std::max(counts.peak_bytes, sum.alive_bytes);
    counts.objects = std::max<uint64_t>(counts.objects, sizes.size());
  }
  sum.is_truncated = reader.truncated();
  sum.alive = sizes.size();
  return sum;
}

ordered_json as_json(const std::string& file, const Sum& sum) {
  ordered_json sizes = ordered_json::array();
  for (size_t i = 0; i < sum.up_to.size(); ++i) {
    if (sum.up_to[i] == 0) continue;
    sizes.push_back({{"at_most_bytes", uint64_t{1} << i}, {"count", sum.up_to[i]}});
  }
  return {{"file", file},
          {"program", sum.program},
          {"truncated", sum.is_truncated},
          {"events", sum.counts.events},
          {"allocations", sum.of_kind[static_cast<size_t>(EventKind::kAllocate)]},
          {"zeroed_allocations", sum.of_kind[static_cast<size_t>(EventKind::kAllocateZeroed)]},
          {"resizes", sum.of_kind[static_cast<size_t>(EventKind::kResize)]},
          {"frees", sum.of_kind[static_cast<size_t>(EventKind::kFree)]},
          {"aligned", sum.aligned},
          {"threads", sum.counts.threads},
          {"seconds", static_cast<double>(sum.counts.duration_ns) / 1e9},
          {"peak_bytes", sum.counts.peak_bytes},
          {"peak_objects", sum.counts.objects},
          {"alive_at_end", sum.alive},
          {"alive_at_end_bytes", sum.alive_bytes},
          {"sizes", sizes}};
}

void print_sizes(const Sum& sum) {
  uint64_t all = 0;
  uint64_t most = 1;
  for (const uint64_t count : sum.up_to) {
    all += count;
    most = std::max(most, count);
  }
  if (all == 0) return;
  printf("\nsizes asked for\n");
  for (size_t i = 0; i < sum.up_to.size(); ++i) {
    const uint64_t count = sum.up_to[i];
    if (count == 0) continue;
    constexpr uint64_t kWidth = 40;
    const auto bar = static_cast<size_t>((count * kWidth + most - 1) / most);
    printf("  up to %10s %12lu %5.1f %%  %s\n", size_text(uint64_t{1} << i).c_str(), count,
           100 * static_cast<double>(count) / static_cast<double>(all),
           std::string(bar, '#').c_str());
  }
}

void print_text(const Sum& sum) {
  const auto count = [&sum](EventKind kind, const char* name) {
    return count_text(sum.of_kind[static_cast<size_t>(kind)], name);
  };
  printf("program   %s\n", sum.program.empty() ? "(not known)" : sum.program.c_str());
  printf("events    %lu: %s, %s, %s, %s; %lu aligned\n", sum.counts.events,
         count(EventKind::kAllocate, "allocation").c_str(),
         count(EventKind::kAllocateZeroed, "zeroed allocation").c_str(),
         count(EventKind::kResize, "resize").c_str(), count(EventKind::kFree, "free").c_str(),
         sum.aligned);
  printf("threads   %lu\n", sum.counts.threads);
  printf("duration  %.6f s\n", static_cast<double>(sum.counts.duration_ns) / 1e9);
  printf("peak      %s asked for at once (%lu bytes), in at most %s\n",
         size_text(sum.counts.peak_bytes).c_str(), sum.counts.peak_bytes,
         count_text(sum.counts.objects, "object").c_str());
  printf("at end    %s alive, in %s\n", size_text(sum.alive_bytes).c_str(),
         count_text(sum.alive, "object").c_str());
  print_sizes(sum);
}

}  // namespace

int trace_info(const std::string& file, bool json) {
  const Sum sum = sum_up(file);
  if (json) {
    puts(as_text(as_json(file, sum), 2).c_str());
  } else {
    print_text(sum);
  }
  return sum.is_truncated ? note_truncated(file) : kExitOk;
}

}  // namespace rdmalloc::cli
