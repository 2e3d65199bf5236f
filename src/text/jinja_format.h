// Numbers laid out by rule, printf's % for strings, str.format, and HTML escapes.
#pragma once

#include <string>

#include "text/jinja_iterate.h"

namespace ingot::jinja {

// `scientific` is [-]d[.ddd]e[+-]xx.  Plain notation for exponents in [low, high), else
// scientific as Python writes it; point: "1" becomes "1.0" in plain notation.
std::string layout_digits(const std::string& scientific, int low, int high, bool point);

// text % values: %s %r %d %i %x %o %f %e %g %c %% with flags, width and precision.
Value format_printf(Run& run, const Value& text, const Value& values);
// text.format(...): {} {0} {name} {0.attr} {0[key]} with !r, !s and a format spec.
Value format_braces(Interpreter& interpreter, const Value& text,
                    const Arguments& arguments);

std::string escape_html(std::string_view text);  // & < > ' "

}  // namespace ingot::jinja
