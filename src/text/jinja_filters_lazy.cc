// Filters that return a lazy sequence: map, select, reject and their kin.
#include <algorithm>

#include "text/jinja_filters.h"

namespace ingot::jinja {

Value attribute_path(Run& run, const Value& attribute) {
  std::vector<Value> parts;
  if (attribute.is(Kind::string)) {
    std::string_view rest = text_of(attribute);
    while (true) {
      const size_t dot = std::min(rest.find('.'), rest.size());
      const std::string part(rest.substr(0, dot));
      const bool number = !part.empty() && part.size() < 18 &&
                          part.find_first_not_of("0123456789") == std::string::npos;
      parts.push_back(number ? Value::integer(std::stoll(part)) : make_string(run, part));
      if (dot == rest.size()) break;
      rest.remove_prefix(dot + 1);
    }
  } else if (!attribute.is_missing() && !attribute.is(Kind::none)) {
    parts.push_back(attribute);
  }
  return make_list(run, std::move(parts));
}

Value follow_path(Interpreter& in, Value item, const Value& path,
                  const Value& otherwise) {
  for (const Value& part : items_of(path)) {
    item = in.get_item(item, part);
    if (item.is_undefined() && !otherwise.is_missing()) item = otherwise;
  }
  return item;
}

namespace {

// The generator functions of Jinja do nothing for a false value, whatever its type.
Value lazy(Run& run, const Value& source, const Arguments* inside) {
  if (!truthy(source)) return make_generator(run, make_list(run, {}), nullptr);
  return make_generator(run, source, inside);
}

bool map_item(Interpreter& in, Generator& generator, Value& item) {
  if (!generator.attribute.is_missing()) {
    item = follow_path(in, item, generator.attribute, generator.default_value);
    return true;
  }
  Arguments arguments = generator.arguments;
  item = in.apply_filter(generator.name, item, arguments);
  return true;
}

bool select_item(Interpreter& in, Generator& generator, Value& item) {
  Value tested = item;
  if (!generator.attribute.is_missing()) {
    tested = follow_path(in, item, generator.attribute, Value());
  }
  if (generator.name.empty()) return truthy(tested) == generator.keep_if;
  Arguments arguments = generator.arguments;
  return in.apply_test(generator.name, tested, arguments) == generator.keep_if;
}

// Takes the first positional argument out: the name of a filter or a test.
std::string take_name(Run& run, Arguments& arguments, std::string_view of) {
  const Value name = arguments.positional[0];
  if (!name.is(Kind::string)) run.fail("{}: the name must be a string", of);
  arguments.positional.erase(arguments.positional.begin());
  return text_of(name);
}

Value map(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Value attribute, otherwise;
  std::string name;
  const bool by_attribute =
      arguments.positional.empty() &&
      std::any_of(arguments.keyword.begin(), arguments.keyword.end(),
                  [](const auto& keyword) { return keyword.first == "attribute"; });
  if (by_attribute) {
    for (auto& [key, argument] : arguments.keyword) {
      if (key != "attribute" && key != "default") {
        run.fail("map: unexpected keyword argument '{}'", key);
      }
      (key == "attribute" ? attribute : otherwise) = std::move(argument);
    }
    attribute = attribute_path(run, attribute);
    if (otherwise.is(Kind::none)) otherwise = Value();
    arguments.keyword.clear();
    if (!otherwise.is_missing()) arguments.positional.push_back(otherwise);
  } else {
    if (arguments.positional.empty()) run.fail("map requires a filter argument");
    name = take_name(run, arguments, "map");
  }
  Value result = lazy(run, value, &arguments);
  Generator& generator = generator_of(result);
  generator.transform = map_item;
  generator.interpreter = &in;
  generator.name = std::move(name);
  generator.attribute = std::move(attribute);
  generator.default_value = std::move(otherwise);
  generator.arguments = std::move(arguments);
  return result;
}

Value select_by(Interpreter& in, const Value& value, Arguments& arguments, bool keep_if,
                bool by_attribute) {
  Run& run = in.run;
  Value attribute;
  if (by_attribute) {
    if (arguments.positional.empty()) run.fail("missing parameter for attribute name");
    attribute = attribute_path(run, arguments.positional[0]);
    arguments.positional.erase(arguments.positional.begin());
  }
  std::string name;
  if (!arguments.positional.empty()) name = take_name(run, arguments, "select");
  Value result = lazy(run, value, &arguments);
  Generator& generator = generator_of(result);
  generator.transform = select_item;
  generator.interpreter = &in;
  generator.name = std::move(name);
  generator.attribute = std::move(attribute);
  generator.arguments = std::move(arguments);
  generator.keep_if = keep_if;
  return result;
}

Value select(Interpreter& in, const Value& value, Arguments& arguments) {
  return select_by(in, value, arguments, true, false);
}
Value reject(Interpreter& in, const Value& value, Arguments& arguments) {
  return select_by(in, value, arguments, false, false);
}
Value select_attribute(Interpreter& in, const Value& value, Arguments& arguments) {
  return select_by(in, value, arguments, true, true);
}
Value reject_attribute(Interpreter& in, const Value& value, Arguments& arguments) {
  return select_by(in, value, arguments, false, true);
}

Value items(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound(in.run, arguments, {.name = "items", .parameters = {}});
  if (value.is_undefined()) return make_generator(in.run, value);
  if (!value.is(Kind::dict)) in.run.fail("can only get item pairs from a mapping");
  return make_generator(in.run, make_view(in.run, value, ViewOf::items));
}

Value reverse(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound(in.run, arguments, {.name = "reverse", .parameters = {}});
  Run& run = in.run;
  if (value.is(Kind::string)) return slice(run, value, {{}, {}, Value::integer(-1)});
  if (value.is(Kind::generator)) {
    std::vector<Value> list = collect(run, value);
    std::reverse(list.begin(), list.end());
    return make_list(run, std::move(list));
  }
  if (!is_iterable(value)) run.fail("reverse: the argument must be iterable");
  return make_generator(run, make_list(run, collect_reversed(run, value)));
}

}  // namespace

FilterFunction find_lazy_filter(std::string_view name) {
  static constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
      {"map", map},
      {"select", select},
      {"reject", reject},
      {"selectattr", select_attribute},
      {"rejectattr", reject_attribute},
      {"items", items},
      {"reverse", reverse},
  };
  for (const auto& [key, function] : kFilters) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace ingot::jinja
