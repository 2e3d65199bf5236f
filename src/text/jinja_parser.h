// A template's text into a Program.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja_ast.h"

namespace ingot::jinja {

// Throws Error "NAME: line N: ...".
std::unique_ptr<const Program> parse(std::string_view source, std::string_view name,
                                     const TemplateLimits& limits);

}  // namespace ingot::jinja
