// Which names a scope hides from the variables around the template before it sets them.
#pragma once

#include "text/jinja_ast.h"

namespace ingot::jinja {

// Jinja decides at compile time where a name lives.  A scope that first mentions a name
// by setting it owns the name from its start: loops and macros inside read it as
// undefined until it is set, even if a variable of the request has that name.  Fills
// Program::hidden and Node::hidden.
void find_hidden_names(Program& program, std::string_view name_for_messages);

}  // namespace ingot::jinja
