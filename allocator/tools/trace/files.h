// `rdmalloc trace import`, `text` and `info`: traces made from text, shown as text, and summarized.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rdmalloc::cli {

// Of text and info, too: the trace was cut off, and what there is of it was shown.
inline constexpr int kExitTruncated = 3;

struct TraceImportRequest {
  std::string text;  // "-": standard input
  std::string file;
};
struct TraceTextRequest {
  std::string file;
};
struct TraceInfoRequest {
  std::string file;
  bool json = false;
};

void add_trace_import_flags(CLI::App& app, TraceImportRequest& request);
void add_trace_text_flags(CLI::App& app, TraceTextRequest& request);
void add_trace_info_flags(CLI::App& app, TraceInfoRequest& request);

int trace_import(const TraceImportRequest& request);
int trace_text(const TraceTextRequest& request);
int trace_info(const TraceInfoRequest& request);

}  // namespace rdmalloc::cli
