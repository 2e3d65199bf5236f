#include "formats/strict_json.h"

#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/quote.h"

namespace ingot {
namespace {

using nlohmann::json;

// Builds the value while nlohmann's SAX parser (which does not recurse) reads the text.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  StrictBuilder(std::string_view source, int max_depth)
      : source_(source), max_depth_(size_t(max_depth)) {}

  json take() { return std::move(root_); }

  bool null() override { return add(json()); }
  bool boolean(bool value) override { return add(json(value)); }
  bool number_integer(number_integer_t value) override { return add(json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(json(value)); }
  bool number_float(number_float_t value, const string_t&) override {
    return add(json(value));
  }
  bool string(string_t& value) override { return add(json(std::move(value))); }
  bool binary(binary_t&) override { return false; }  // not in JSON text
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [slot, is_new] = open_.back()->emplace(name, json());
    if (!is_new) fail("{}: key {} twice in one object (ST-7)", source_, in_quotes(name));
    slot_ = &*slot;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail("{}: no strict JSON at byte {} (ST-6)", source_, position);
  }

 private:
  json* put(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool add(json value) {
    put(std::move(value));
    return true;
  }
  bool open(json value) {
    if (open_.size() >= max_depth_)
      fail("{}: JSON nested deeper than {} levels (ST-6)", source_, max_depth_);
    open_.push_back(put(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view source_;
  size_t max_depth_;
  json root_;
  json* slot_ = nullptr;     // where the value of the last key goes
  std::vector<json*> open_;  // containers being filled; growth never moves an open one
};

}  // namespace

json parse_strict_json(std::string_view text, std::string_view source,
                       StrictJsonLimits limits) {
  if (!is_valid_utf8(text)) fail("{}: JSON is not valid UTF-8 (ST-4)", source);
  // The library takes a NUL for the end of the text, and skips a byte order mark.
  if (text.find('\0') != std::string_view::npos)
    fail("{}: a NUL byte in JSON, at byte {} (ST-6)", source, text.find('\0'));
  if (text.starts_with("\xef\xbb\xbf"))
    fail("{}: a byte order mark before the JSON (ST-5)", source);
  StrictBuilder builder(source, limits.max_depth);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string json_kind(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string:
      return "a string";
    case json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    default:
      return value.dump();
  }
}

}  // namespace ingot
