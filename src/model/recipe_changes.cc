// What differs between two recipes, field by field.
#include <fmt/format.h>

#include <algorithm>

#include "model/describe.h"
#include "model/recipe_file.h"

namespace ingot {
namespace {

using nlohmann::json;

bool is_list_of_objects(const json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

struct Change {
  std::string field;
  json derived, now;  // discarded: absent
};

void compare(const std::string& field, const json& derived, const json& now,
             std::vector<Change>& out) {
  const auto below = [&](const std::string& name) {
    return field.empty() ? name : field + "." + name;
  };
  if (derived == now) return;
  if (derived.is_object() && now.is_object() &&
      derived.value("kind", json()) == now.value("kind", json())) {
    for (const auto& [name, value] : derived.items()) {
      const auto it = now.find(name);
      compare(below(name), value, it == now.end() ? json(json::value_t::discarded) : *it,
              out);
    }
    for (const auto& [name, value] : now.items())
      if (!derived.contains(name))
        out.push_back({below(name), json(json::value_t::discarded), value});
  } else if (is_list_of_objects(derived) && is_list_of_objects(now)) {
    for (size_t i = 0; i < std::max(derived.size(), now.size()); ++i)
      compare(fmt::format("{}[{}]", field, i),
              i < derived.size() ? derived[i] : json(json::value_t::discarded),
              i < now.size() ? now[i] : json(json::value_t::discarded), out);
  } else {
    out.push_back({field, derived, now});
  }
}

// A change of layers: the part of its field behind the index, and which layers.
using ChangeOfLayers = std::pair<Change, std::vector<int>>;

// The same change in many layers is one.
std::vector<ChangeOfLayers> grouped(std::vector<Change> changes) {
  constexpr std::string_view kLayers = "layers[";
  const auto equal = [](const json& a, const json& b) {
    return a == b || (a.is_discarded() && b.is_discarded());
  };
  std::vector<ChangeOfLayers> out;
  for (Change& change : changes) {
    const size_t close = change.field.find(']');
    if (!change.field.starts_with(kLayers)) {
      out.emplace_back(std::move(change), std::vector<int>());
      continue;
    }
    const int layer =
        std::stoi(change.field.substr(kLayers.size(), close - kLayers.size()));
    change.field.erase(0, close + 1);
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& group) {
      return !group.second.empty() && group.first.field == change.field &&
             equal(group.first.derived, change.derived) &&
             equal(group.first.now, change.now);
    });
    if (same == out.end())
      out.emplace_back(std::move(change), std::vector<int>{layer});
    else
      same->second.push_back(layer);
  }
  return out;
}

std::string text_of(const json& value) {
  return value.is_discarded() ? std::string() : shown_json(value);
}

}  // namespace

std::vector<RecipeChange> recipe_changes(const Recipe& derived, const Recipe& now) {
  std::vector<Change> changes;
  compare("", json::parse(recipe_json(derived)), json::parse(recipe_json(now)), changes);
  std::vector<RecipeChange> out;
  for (const auto& [change, layers] : grouped(std::move(changes))) {
    std::string field = change.field;
    if (!layers.empty()) field = fmt::format("layers[{}]{}", index_ranges(layers), field);
    out.push_back({field, text_of(change.derived), text_of(change.now)});
  }
  return out;
}

}  // namespace ingot
