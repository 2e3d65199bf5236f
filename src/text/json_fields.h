// Typed reading of large JSON (simdjson), with messages that name the field.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

namespace ingot {

// A JSON value and where it stands: "tokenizer.json: model.vocab".
class JsonField {
 public:
  JsonField(simdjson::dom::element element, std::string place)
      : element_(element), place_(std::move(place)) {}

  const std::string& place() const { return place_; }
  simdjson::dom::element element() const { return element_; }

  // The value of a key of this object: has(), a field that must be there, or a default
  // when it is absent or null.  All throw Error when the type is wrong.
  bool has(std::string_view key) const;  // present and not null
  JsonField at(std::string_view key) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  size_t count(std::string_view key, size_t otherwise) const;

  simdjson::dom::object object() const;
  simdjson::dom::array array() const;
  std::string_view string() const;
  int64_t integer(int64_t least, int64_t most) const;
  bool boolean() const;
  char32_t letter() const;  // a string of one code point

  JsonField item(size_t index, simdjson::dom::element element) const;

 private:
  [[noreturn]] void refuse(std::string_view wanted) const;
  simdjson::dom::element element_;
  std::string place_;
};

}  // namespace ingot
