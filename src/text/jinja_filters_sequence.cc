// Filters of whole sequences, and those that pick from one.
#include <algorithm>
#include <numeric>

#include "text/jinja_filters.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace ingot::jinja {
namespace {

bool flag(const Bound& bound, size_t i) { return bound.has(i) && truthy(bound[i]); }

void want_none(Interpreter& in, std::string_view name, Arguments& arguments) {
  Bound(in.run, arguments, {.name = name, .parameters = {}});
}

// ---- sorting

Value fold_case(Run& run, Value value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::string)) return value;
  return make_string(run, to_lower(text_of(value)));
}

// Where each item goes; equal keys keep their order, also when reversed.
std::vector<size_t> sorted_places(Run& run, const std::vector<Value>& keys,
                                  bool reverse) {
  std::vector<size_t> places(keys.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    return order(run, keys[reverse ? b : a], keys[reverse ? a : b], "<") == -1;
  });
  return places;
}

std::vector<Value> pick(const std::vector<Value>& items,
                        const std::vector<size_t>& places) {
  std::vector<Value> out;
  out.reserve(places.size());
  for (size_t place : places) out.push_back(items[place]);
  return out;
}

// 'a,b.c' names two keys; no attribute is the item itself.
std::vector<Value> key_paths(Run& run, const Value& attribute) {
  std::vector<Value> paths;
  if (!attribute.is(Kind::string)) return {attribute_path(run, attribute)};
  std::string_view rest = text_of(attribute);
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    paths.push_back(
        attribute_path(run, make_string(run, std::string(rest.substr(0, comma)))));
    if (comma == rest.size()) return paths;
    rest.remove_prefix(comma + 1);
  }
}

Value sort(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "sort", .parameters = {"reverse", "case_sensitive", "attribute"}});
  const std::vector<Value> paths = key_paths(run, bound[2]);
  const std::vector<Value> items = collect(run, value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const Value& path : paths) {
      key.push_back(fold_case(run, follow_path(in, item, path, Value()), flag(bound, 1)));
    }
    keys.push_back(make_list(run, std::move(key)));
  }
  return make_list(run, pick(items, sorted_places(run, keys, flag(bound, 0))));
}

Value dict_sort(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "dictsort", .parameters = {"case_sensitive", "by", "reverse"}});
  const std::string by = bound.has(1) ? str_of(run, bound[1]) : "key";
  if (by != "key" && by != "value") run.fail("dictsort: sort by 'key' or 'value'");
  if (value.is_undefined()) fail_undefined(run, value);
  if (!value.is(Kind::dict))
    run.fail("dictsort wants a mapping, not {}", type_name(value));
  std::vector<Value> items, keys;
  for (const auto& [key, item] : dict_of(value).entries) {
    items.push_back(make_tuple(run, {key, item}));
    keys.push_back(fold_case(run, by == "key" ? key : item, flag(bound, 0)));
  }
  return make_list(run, pick(items, sorted_places(run, keys, flag(bound, 2))));
}

Value group_by(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "groupby",
               .parameters = {"attribute", "default", "case_sensitive"},
               .required = 1});
  const Value path = attribute_path(run, bound[0]);
  const Value otherwise = bound[1].is(Kind::none) ? Value() : bound[1];
  const std::vector<Value> items = collect(run, value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    keys.push_back(
        fold_case(run, follow_path(in, item, path, otherwise), flag(bound, 2)));
  }
  const std::vector<size_t> places = sorted_places(run, keys, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < places.size();) {
    size_t end = begin + 1;
    while (end < places.size() && equal(run, keys[places[begin]], keys[places[end]]))
      ++end;
    std::vector<Value> members;
    for (size_t i = begin; i < end; ++i) members.push_back(items[places[i]]);
    Value grouper = follow_path(in, members[0], path, otherwise);
    Value group = make_tuple(run, {grouper, make_list(run, std::move(members))});
    static_cast<Sequence*>(group.as_object())->is_group = true;
    groups.push_back(std::move(group));
    begin = end;
  }
  return make_list(run, std::move(groups));
}

Value unique(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "unique", .parameters = {"case_sensitive", "attribute"}});
  const Value path = attribute_path(run, bound[1]);
  DictBuilder seen(run);
  std::vector<Value> items;
  Iterator iterator(run, value);
  for (Value item; iterator.next(item);) {
    const Value key =
        fold_case(run, follow_path(in, item, path, Value()), flag(bound, 0));
    if (!seen.add(key)) continue;
    items.push_back(std::move(item));
  }
  return make_generator(run, make_list(run, std::move(items)));
}

// ---- picking

Value extreme(Interpreter& in, const Value& value, Arguments& arguments, int wanted) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "min/max", .parameters = {"case_sensitive", "attribute"}});
  const Value path = attribute_path(run, bound[1]);
  Iterator iterator(run, value);
  Value best, best_key;
  for (Value item; iterator.next(item);) {
    Value key = fold_case(run, follow_path(in, item, path, Value()), flag(bound, 0));
    if (best.is_missing() ||
        order(run, key, best_key, wanted < 0 ? "<" : ">") == wanted) {
      best = std::move(item);
      best_key = std::move(key);
    }
  }
  if (best.is_missing())
    return make_undefined(run, "no aggregated item, sequence was empty");
  return best;
}
Value min(Interpreter& in, const Value& value, Arguments& arguments) {
  return extreme(in, value, arguments, -1);
}
Value max(Interpreter& in, const Value& value, Arguments& arguments) {
  return extreme(in, value, arguments, 1);
}

Value first(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "first", arguments);
  Iterator iterator(in.run, value);
  Value item;
  if (iterator.next(item)) return item;
  return make_undefined(in.run, "no first item, sequence was empty");
}
Value last(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "last", arguments);
  if (value.is_sequence() || value.is(Kind::string) || value.is(Kind::range)) {
    Value item = item_at(in.run, value, Value::integer(-1));
    if (!item.is_missing()) return item;
  } else {
    const std::vector<Value> items = collect_reversed(in.run, value);
    if (!items.empty()) return items[0];
  }
  return make_undefined(in.run, "no last item, sequence was empty");
}

Value length(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "length", arguments);
  return Value::integer(length_of(in.run, value));
}
Value list(Interpreter& in, const Value& value, Arguments& arguments) {
  want_none(in, "list", arguments);
  return make_list(in.run, collect(in.run, value));
}

Value default_filter(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "default", .parameters = {"default_value", "boolean"}});
  if (!value.is_undefined() && !(flag(bound, 1) && !truthy(value))) return value;
  return bound.has(0) ? bound[0] : make_string(in.run, "");
}

Value attribute_filter(Interpreter& in, const Value& value, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "attr", .parameters = {"name"}, .required = 1});
  if (!bound[0].is(Kind::string)) in.run.fail("attr: the name must be a string");
  const std::string& name = text_of(bound[0]);
  if (value.is_undefined() && name.starts_with("__") && name.ends_with("__")) {
    return make_undefined(in.run,
                          fmt::format("access to attribute '{}' is unsafe", name));
  }
  if (value.is(Kind::dict) && find_method(value, name) == nullptr) {
    return make_undefined(in.run,
                          fmt::format("'dict object' has no attribute '{}'", name));
  }
  return in.get_attribute(value, name);
}

// ---- putting together

Value join(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments, {.name = "join", .parameters = {"d", "attribute"}});
  const Value separator = make_string(run, bound.has(0) ? str_of(run, bound[0]) : "");
  const Value path = attribute_path(run, bound[1]);
  MarkedText out;
  bool is_first = true;
  Iterator iterator(run, value);
  for (Value item; iterator.next(item);) {
    if (!std::exchange(is_first, false)) append_string(out, separator);
    Value part = follow_path(in, item, path, Value());
    if (!part.is(Kind::string)) {
      run.read_foreign = false;
      part = make_string(run, str_of(run, part));
      if (run.read_foreign) mark_foreign(run, part);
    }
    append_string(out, part);
    run.copying(string_of(separator).text.size() + string_of(part).text.size());
    run.check_string(out.text.size());
    run.check_room(2 * out.text.size());
  }
  return make_marked_string(run, std::move(out));
}

Value sum(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments, {.name = "sum", .parameters = {"attribute", "start"}});
  const Value path = attribute_path(run, bound[0]);
  Value total = bound.has(1) ? bound[1] : Value::integer(0);
  if (total.is(Kind::string)) run.fail("sum() can't sum strings");
  Iterator iterator(run, value);
  for (Value item; iterator.next(item);) {
    total = binary(run, BinaryOp::add, total, follow_path(in, item, path, Value()));
  }
  return total;
}

Value batch(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "batch", .parameters = {"linecount", "fill_with"}, .required = 1});
  const int64_t size = index_of(run, bound[0], "batch");
  std::vector<Value> rows, row;
  Iterator iterator(run, value);
  for (Value item; iterator.next(item);) {
    if (static_cast<int64_t>(row.size()) == size) {
      rows.push_back(make_list(run, std::exchange(row, {})));
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const bool fill = bound.has(1) && !bound[1].is(Kind::none);
    while (fill && static_cast<int64_t>(row.size()) < size) {
      run.step();
      if (row.size() % 1024 == 0) run.check_room(row.size() * 2 * sizeof(Value));
      row.push_back(bound[1]);
    }
    rows.push_back(make_list(run, std::move(row)));
  }
  return make_generator(run, make_list(run, std::move(rows)));
}

Value slice_filter(Interpreter& in, const Value& value, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "slice", .parameters = {"slices", "fill_with"}, .required = 1});
  const int64_t n = index_of(run, bound[0], "slice");
  const std::vector<Value> items = collect(run, value);
  if (n == 0) run.fail("slice: division by zero");
  const auto size = static_cast<int64_t>(items.size());
  const int64_t each = n > 0 ? size / n : 0;
  const int64_t with_extra = n > 0 ? size % n : 0;
  const bool fill = bound.has(1) && !bound[1].is(Kind::none);
  std::vector<Value> slices;
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    run.step();
    const int64_t take = each + (i < with_extra ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + at + take);
    at += take;
    if (fill && i >= with_extra) part.push_back(bound[1]);
    slices.push_back(make_list(run, std::move(part)));
  }
  return make_generator(run, make_list(run, std::move(slices)));
}

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) {
  static constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
      {"length", length},
      {"count", length},
      {"list", list},
      {"join", join},
      {"default", default_filter},
      {"d", default_filter},
      {"first", first},
      {"last", last},
      {"sort", sort},
      {"unique", unique},
      {"min", min},
      {"max", max},
      {"sum", sum},
      {"dictsort", dict_sort},
      {"groupby", group_by},
      {"batch", batch},
      {"slice", slice_filter},
      {"attr", attribute_filter},
  };
  for (const auto& [key, function] : kFilters) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace ingot::jinja
