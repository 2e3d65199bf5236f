// What the filter files share.
#pragma once

#include "text/jinja_eval.h"

namespace ingot::jinja {

// 'a.b.0' as the list ['a', 'b', 0]; an integer as [n]; none and missing as [].
Value attribute_path(Run& run, const Value& attribute);
// item['a']['b'][0], with `otherwise` (unless missing) for what is undefined on the way.
Value follow_path(Interpreter& in, Value item, const Value& path, const Value& otherwise);

FilterFunction find_sequence_filter(std::string_view name);  // jinja_filters_sequence.cc
FilterFunction find_lazy_filter(std::string_view name);      // jinja_filters_lazy.cc

}  // namespace ingot::jinja
