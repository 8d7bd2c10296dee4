// The same look at the node as one JSON object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "allocator/tools/top/view.h"

namespace rdmalloc::cli {

// What is not known is null. Bytes are named so.
nlohmann::ordered_json as_json(const TopView& view);

// ASCII alone, whatever the names are: what is no UTF-8 in them becomes U+FFFD.
std::string as_text(const nlohmann::ordered_json& json, int indent);

}  // namespace rdmalloc::cli
