// The functions that every template sees, and how builtins take their arguments.
#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja_eval.h"
#include "text/jinja_print.h"

namespace ingot::jinja {

Bound::Bound(Run& run, Arguments& arguments, const Signature& signature)
    : values_(signature.parameters.size()) {
  const size_t n = signature.parameters.size();
  if (arguments.positional.size() > n) {
    run.fail("{}() takes at most {} argument(s), {} given", signature.name, n,
             arguments.positional.size());
  }
  std::move(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (auto& [key, value] : arguments.keyword) {
    const auto* found =
        std::find(signature.parameters.begin(), signature.parameters.end(), key);
    if (found == signature.parameters.end() || !signature.by_name) {
      run.fail("{}() got an unexpected keyword argument '{}'", signature.name, key);
    }
    Value& place = values_[static_cast<size_t>(found - signature.parameters.begin())];
    if (!place.is_missing()) {
      run.fail("{}() got multiple values for argument '{}'", signature.name, key);
    }
    place = std::move(value);
  }
  for (size_t i = 0; i < signature.required; ++i) {
    if (values_[i].is_missing()) {
      run.fail("{}() misses argument '{}'", signature.name,
               *(signature.parameters.begin() + i));
    }
  }
}

namespace {

Value raise_exception(Interpreter& in, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "raise_exception", .parameters = {"message"}, .required = 1});
  throw Error(fmt::format("{}: {}", in.run.name, str_of(in.run, bound[0])));
}

Value strftime_now(Interpreter& in, Arguments& arguments) {
  Bound bound(in.run, arguments,
              {.name = "strftime_now", .parameters = {"format"}, .required = 1});
  if (!bound[0].is(Kind::string)) in.run.fail("strftime_now() wants a format string");
  if (text_of(bound[0]).size() > 1000)
    in.run.fail("strftime_now(): the format is too long");
  return make_string(in.run, format_time(in.now(), text_of(bound[0])));
}

Value range(Interpreter& in, Arguments& arguments) {
  Run& run = in.run;
  Bound bound(run, arguments,
              {.name = "range",
               .parameters = {"start", "stop", "step"},
               .required = 1,
               .by_name = false});
  const int64_t first = index_of(run, bound[0], "range()");
  const int64_t start = bound.has(1) ? first : 0;
  const int64_t stop = bound.has(1) ? index_of(run, bound[1], "range()") : first;
  const int64_t step = bound.has(2) ? index_of(run, bound[2], "range()") : 1;
  if (step == 0) run.fail("range() arg 3 must not be zero");
  constexpr int64_t kMaxRange = 100'000;  // as Jinja's sandbox
  constexpr int64_t kFar = int64_t{1} << 60;
  const bool far = std::abs(start / 2) > kFar || std::abs(stop / 2) > kFar;
  const int64_t near_step = std::clamp(step, -kFar, kFar);
  if (far || Range{{}, start, stop, near_step}.size() > kMaxRange) {
    run.fail("range too big: the sandbox allows {} items", kMaxRange);
  }
  return make_range(run, start, stop, near_step);
}

// dict(mapping or pairs, **keywords)
Value dict(Interpreter& in, Arguments& arguments) {
  Run& run = in.run;
  if (arguments.positional.size() > 1) run.fail("dict expected at most 1 argument");
  DictBuilder dict(run);
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.is_undefined()) fail_undefined(run, from);
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : dict_of(from).entries) dict.set(key, value);
    } else {
      Iterator pairs(run, from);
      for (Value pair; pairs.next(pair);) {
        std::vector<Value> items = collect(run, pair);
        if (items.size() != 2) run.fail("dict() wants pairs, got {} items", items.size());
        dict.set(items[0], items[1]);
      }
    }
  }
  for (const auto& [key, value] : arguments.keyword) dict.set(key, value);
  return dict.finish();
}

Value name_space(Interpreter& in, Arguments& arguments) {
  const Value from = dict(in, arguments);
  Value result = make_namespace(in.run);
  auto& names = *static_cast<Namespace*>(result.as_object());
  for (const auto& [key, value] : dict_of(from).entries) {
    if (!key.is(Kind::string)) continue;  // no attribute can reach it
    in.run.charge(64 + text_of(key).size());
    names.charged_bytes += 64 + text_of(key).size();
    names.attributes.emplace_back(text_of(key), value);
  }
  return result;
}

Value cycler(Interpreter& in, Arguments& arguments) {
  if (arguments.positional.empty()) in.run.fail("at least one item has to be provided");
  auto* cycler = new Cycler;
  cycler->items = std::move(arguments.positional);
  charge_object(in.run, *cycler, Kind::cycler,
                sizeof(Cycler) + 16 * cycler->items.size());
  Value value = Value::object(Kind::cycler, cycler);
  cycler->depth = depth_around(in.run, cycler->items);
  return value;
}

Value joiner(Interpreter& in, Arguments& arguments) {
  Bound bound(in.run, arguments, {.name = "joiner", .parameters = {"sep"}});
  Value separator = bound.has(0) ? bound[0] : make_string(in.run, ", ");
  const uint32_t depth = depth_around(in.run, {separator});
  auto* joiner = new Joiner;
  joiner->separator = std::move(separator);
  joiner->depth = depth;
  charge_object(in.run, *joiner, Kind::joiner, sizeof(Joiner));
  return Value::object(Kind::joiner, joiner);
}

}  // namespace

GlobalFunction find_global(std::string_view name) {
  static constexpr std::pair<std::string_view, GlobalFunction> kGlobals[] = {
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
      {"range", range},
      {"dict", dict},
      {"namespace", name_space},
      {"cycler", cycler},
      {"joiner", joiner},
  };
  for (const auto& [key, function] : kGlobals) {
    if (key == name) return function;
  }
  return nullptr;
}

// ---- Values from JSON ---------------------------------------------------------------

namespace {

// Templates build markers from roles ('<|' + role + '|>'), so the known ones count as the
// template's own words.
bool is_known_role(std::string_view key, const nlohmann::ordered_json& value) {
  static constexpr std::string_view kRoles[] = {
      "system",   "developer", "user",  "assistant",   "tool",
      "function", "ipython",   "model", "environment", "tool_response"};
  if (key != "role" || !value.is_string()) return false;
  const auto& role = value.get_ref<const std::string&>();
  return std::count(std::begin(kRoles), std::end(kRoles), role) != 0;
}

}  // namespace

Value value_from_json(Run& run, const nlohmann::ordered_json& json, Origin origin) {
  using Type = nlohmann::ordered_json::value_t;
  run.step();
  run.check_stack();
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>());
    case Type::number_integer:
      return Value::integer(json.get<int64_t>());
    case Type::number_unsigned: {
      const auto value = json.get<uint64_t>();
      if (value <= INT64_MAX) return Value::integer(static_cast<int64_t>(value));
      return make_int(run, BigInt::parse(fmt::format("{}", value)));
    }
    case Type::number_float:
      return Value::floating(json.get<double>());
    case Type::string: {
      const auto& text = json.get_ref<const std::string&>();
      std::string valid = is_valid_utf8(text) ? text : lossy_utf8(text);
      return origin == Origin::request ? make_foreign_string(run, std::move(valid))
                                       : make_string(run, std::move(valid));
    }
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(value_from_json(run, item, origin));
      return make_list(run, std::move(items));
    }
    case Type::object: {
      DictBuilder dict(run);
      for (const auto& [key, value] : json.items()) {
        const Origin from = is_known_role(key, value) ? Origin::model : origin;
        dict.set(origin == Origin::request ? make_foreign_string(run, lossy_utf8(key))
                                           : make_string(run, lossy_utf8(key)),
                 value_from_json(run, value, from));
      }
      return dict.finish();
    }
    case Type::binary: {  // parse_request_json: an integer past 64 bits, as its digits
      const auto& digits = json.get_binary();
      return make_int(run, BigInt::parse(std::string(digits.begin(), digits.end())));
    }
    default:
      return Value::none();
  }
}

}  // namespace ingot::jinja
