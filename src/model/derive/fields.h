// Typed, checked reading of a checkpoint's own description: config.json and GGUF metadata
// behind one face, so that a derivation states each fact once.  Every failure is an Error
// that names the file, the field, what was found and what was wanted.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"

namespace ingot {

constexpr double kAnyReal = std::numeric_limits<double>::max();

// One JSON object: config.json, a nested object of it, or GGUF metadata turned into JSON
// under the architecture's prefix.  Remembers which fields were read.
class Fields {
 public:
  // `where` is put before each field's name in messages: "config.json: " or
  // "model.gguf: llama.".
  Fields(const nlohmann::json& object, std::string where);

  bool has(std::string_view name) const;  // present and not null; counts as read
  int integer(std::string_view name, int64_t low, int64_t high) const;
  int integer_or(std::string_view name, int64_t low, int64_t high, int fallback) const;
  double real(std::string_view name, double low, double high) const;
  double real_or(std::string_view name, double low, double high, double fallback) const;
  bool boolean_or(std::string_view name, bool fallback) const;
  std::string text(std::string_view name) const;
  std::string text_or(std::string_view name, std::string_view fallback) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::vector<int> integers(std::string_view name, int64_t low, int64_t high) const;
  std::vector<double> reals(std::string_view name, double low, double high) const;
  // One integer for each of n layers: a list of n, or one number for all.
  std::vector<int> per_layer(std::string_view name, int n, int64_t low,
                             int64_t high) const;
  std::optional<Fields> object(std::string_view name) const;

  // Marks fields as known and without effect on the arithmetic.
  void ignore(std::initializer_list<std::string_view> names) const;
  // The field must be absent, null, or equal to `harmless` (false, 0, 1.0 ...).
  void only(std::string_view name, const nlohmann::json& harmless) const;
  // Every field that nobody asked for: refused when its name speaks of arithmetic
  // ("scale", "attention", "norm" ...), else a warning once.
  void refuse_unread() const;

  [[noreturn]] void refuse(std::string_view name, const std::string& wanted) const;
  const std::string& where() const { return where_; }
  const nlohmann::json& raw() const { return object_; }

 private:
  std::string named(std::string_view name) const;  // FILE: field 'OUTER.NAME'
  const nlohmann::json* find(std::string_view name) const;
  const nlohmann::json& object_;
  std::string where_;
  mutable std::set<std::string, std::less<>> read_;
};

// No fields at all: every reading takes its fallback.
const Fields& empty_fields();

// A JSON object out of a file's text, nested at most 16 levels.  `where` opens messages.
nlohmann::json parse_object(const std::string& text, const std::string& where);

// GGUF metadata under "ARCH." as a JSON object (arrays of strings left out:
// vocabularies).
nlohmann::json metadata_json(const Checkpoint& checkpoint, std::string_view prefix);

}  // namespace ingot
