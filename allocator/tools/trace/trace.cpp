#include "allocator/tools/trace/trace.h"

#include <CLI/CLI.hpp>

#include "allocator/tools/manual_page.h"
#include "allocator/tools/refusal.h"

namespace rdmalloc::cli {
namespace {

CLI::App* add_verb(CLI::App& trace, const char* verb, TraceRequest& request) {
  CLI::App* app =
      trace.add_subcommand(verb, find_manual_page(std::string("trace ") + verb)->summary);
  app->set_help_flag("-h,--help", "print this help and exit");
  app->callback([&request, verb] { request.verb = verb; });
  return app;
}

}  // namespace

void add_trace_verbs(CLI::App& trace, TraceRequest& request) {
  trace.require_subcommand(0, 1);
  add_trace_record_flags(*add_verb(trace, "record", request), request.record);
  add_trace_replay_flags(*add_verb(trace, "replay", request), request.replay);
  add_trace_import_flags(*add_verb(trace, "import", request), request.import);
  add_trace_text_flags(*add_verb(trace, "text", request), request.text);
  add_verb(trace, "cost", request)->add_flag("--threads", request.cost_with_threads, "");
  add_trace_info_flags(*add_verb(trace, "info", request), request.info);
}

int trace(const TraceRequest& request) {
  if (request.verb == "record") return trace_record(request.record);
  if (request.verb == "replay") return trace_replay(request.replay);
  if (request.verb == "import") return trace_import(request.import);
  if (request.verb == "text") return trace_text(request.text);
  if (request.verb == "cost") return trace_cost(request.cost_with_threads);
  if (request.verb == "info") return trace_info(request.info);
  throw Refusal("trace: say what to do: record, replay, import, text or info");
}

}  // namespace rdmalloc::cli
