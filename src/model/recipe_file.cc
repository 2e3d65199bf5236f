#include "model/recipe_file.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/strict_json.h"
#include "model/describe.h"
#include "model/recipe_check.h"

namespace ingot {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t(16) << 20;
constexpr size_t kMaxSpread = size_t(8) << 20;  // bytes times the layers they may go to
constexpr int kMaxDepth = 20;                   // a whole recipe has 13
constexpr char kFileName[] = "recipe.json";

std::filesystem::path recipe_path(const Checkpoint& checkpoint) {
  return checkpoint.path / kFileName;
}

// What a recipe cannot do without; with all of it a file stands for itself.
bool is_whole(const json& object) {
  constexpr std::array kWanted = {"vocab_size", "hidden_size", "embed", "layers",
                                  "final_norm"};
  return object.contains("layers") && object["layers"].is_array() &&
         std::all_of(kWanted.begin(), kWanted.end(),
                     [&](const char* name) { return object.contains(name); });
}

bool is_list_of_objects(const json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

// Another kind of mixer or MLP shares no fields with the one before.
bool changes_kind(std::string_view name, const json& onto, const json& part) {
  return (name == "mixer" || name == "ffn") && onto.is_object() && part.is_object() &&
         part.contains("kind") && onto.value("kind", json()) != part["kind"];
}

void lay_over(json& onto, const json& part) {
  if (onto.is_object() && part.is_object()) {
    for (const auto& [name, value] : part.items()) {
      if (value.is_null())
        onto.erase(name);
      else if (!onto.contains(name) || changes_kind(name, onto[name], value))
        onto[name] = value;
      else
        lay_over(onto[name], value);
    }
  } else if (is_list_of_objects(onto) && is_list_of_objects(part)) {
    for (size_t i = 0; i < part.size(); ++i) {
      if (i < onto.size())
        lay_over(onto[i], part[i]);
      else
        onto.push_back(part[i]);
    }
  } else {
    onto = part;
  }
}

// ---- Layers by number ----------------------------------------------------------------

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Changes for layers under names like "0-3, 5", as a person and index_ranges() write
// them, or "all".  No layer is named twice, so the work is bounded by their number.
class NamedLayers {
 public:
  NamedLayers(json& layers, const std::string& where) : layers_(layers), where_(where) {}

  void lay_over_all(const json& part) {
    named_.assign(layers_.size(), false);
    for (const auto& [name, value] : part.items()) {
      if (!value.is_object())
        fail("{}field 'layers.{}' is {}, wanted an object", where_, printable_text(name),
             shown_json(value));
      if (name == "all")
        lay_over_range(name, {0, int(layers_.size()) - 1}, value);
      else
        lay_over_ranges(name, value);
    }
  }

 private:
  using FirstAndLast = std::pair<int, int>;

  [[noreturn]] void refuse(std::string_view name, const std::string& wanted) const {
    fail("{}field 'layers' names {}, wanted {}", where_, shown_json(json(name)), wanted);
  }

  void lay_over_ranges(std::string_view name, const json& value) {
    for (std::string_view rest = name;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view range = trimmed(rest.substr(0, comma));
      const size_t dash = std::min(range.find('-'), range.size());
      const std::optional<int> first = number(trimmed(range.substr(0, dash)));
      const std::optional<int> last =
          dash == range.size() ? first : number(trimmed(range.substr(dash + 1)));
      if (!first || !last) refuse(name, "\"all\" or ranges of layers like \"0-3, 5\"");
      lay_over_range(name, {*first, *last}, value);
      if (comma == rest.size()) return;
      rest.remove_prefix(comma + 1);
    }
  }

  void lay_over_range(std::string_view name, FirstAndLast range, const json& value) {
    const auto [first, last] = range;
    if (first < 0 || last < first || size_t(last) >= layers_.size())
      refuse(name, fmt::format("layers 0 to {}", layers_.size() - 1));
    for (size_t i = size_t(first); i <= size_t(last); ++i) {
      if (named_[i]) refuse(name, fmt::format("layer {} named once", i));
      named_[i] = true;
      lay_over(layers_[i], value);
    }
  }

  json& layers_;
  const std::string& where_;
  std::vector<bool> named_;
};

json parse(std::string_view text, const std::string& source) {
  json object = parse_strict_json(text, source, {.max_depth = kMaxDepth});
  if (!object.is_object()) fail("{}: not a JSON object", source);
  return object;
}

Recipe checked(const json& object, const std::string& source,
               const RecipeLimits& limits) {
  const std::string where = source + ": ";
  Recipe recipe = read_recipe(object, where, limits);
  check_recipe(recipe, where);
  return recipe;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& source,
                    const RecipeLimits& limits) {
  return checked(parse(text, source), source, limits);
}

Recipe parse_recipe_over(const Recipe& derived, std::string_view text,
                         const std::string& source, const RecipeLimits& limits) {
  const json part = parse(text, source);
  if (is_whole(part)) return checked(part, source, limits);
  json object = json::parse(recipe_json(derived));
  json rest = part;
  const auto layers = part.find("layers");
  if (layers != part.end() && layers->is_object()) {
    const std::string where = source + ": ";
    if (text.size() * derived.layers.size() > kMaxSpread)
      fail("{}field 'layers' is an object in {} bytes, wanted at most {} for {} layers",
           where, text.size(), kMaxSpread / derived.layers.size(), derived.layers.size());
    NamedLayers(object["layers"], where).lay_over_all(*layers);
    rest.erase("layers");
  }
  lay_over(object, rest);
  return checked(object, source, limits);
}

bool has_recipe_file(const Checkpoint& checkpoint) {
  std::error_code error;
  return checkpoint.container == Container::safetensors &&
         std::filesystem::is_regular_file(recipe_path(checkpoint), error);
}

Recipe load_recipe_override(const Checkpoint& checkpoint, Recipe derived) {
  if (!has_recipe_file(checkpoint)) return derived;
  const std::filesystem::path path = recipe_path(checkpoint);
  return parse_recipe_over(derived, read_file(path, kMaxFileBytes), printable(path));
}

}  // namespace ingot
