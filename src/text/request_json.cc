// parse_request_json of chat_template.h: nlohmann's parser with Python's integers.
#include "base/error.h"
#include "text/chat_template.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

// Builds the document itself, because nlohmann turns integers past 64 bits into doubles.
// Such an integer is kept as a binary value that holds its digits (jinja_globals.cc).
class Builder : public nlohmann::json_sax<ordered_json> {
 public:
  Builder(std::string_view what, ordered_json& root) : what_(what), root_(root) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string& text) override {
    const bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
    if (!whole) return put(value);
    if (text.size() > 4300) fail("{}: an integer of more than 4300 digits", what_);
    return put(ordered_json::binary({text.begin(), text.end()}));
  }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(ordered_json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(ordered_json::object()); }
  bool start_array(size_t) override { return open(ordered_json::array()); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string reason = error.what();
    if (size_t at = reason.find("] "); at != std::string::npos) reason.erase(0, at + 2);
    fail("{}: not JSON, at byte {}: {}", what_, position, reason);
  }

 private:
  ordered_json* place() {
    if (open_.empty()) return &root_;
    ordered_json& parent = *open_.back();
    if (parent.is_object()) return &parent[key_];
    parent.push_back(nullptr);
    return &parent.back();
  }
  bool put(ordered_json value) {
    *place() = std::move(value);
    return true;
  }
  bool open(ordered_json container) {
    constexpr size_t kMaxDepth = 400;
    if (open_.size() >= kMaxDepth) fail("{}: nested more than {} deep", what_, kMaxDepth);
    ordered_json* here = place();
    *here = std::move(container);
    open_.push_back(here);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view what_;
  ordered_json& root_;
  std::vector<ordered_json*> open_;  // the parents of what comes next; none is moved
  std::string key_;
};

}  // namespace

ordered_json parse_request_json(std::string_view text, std::string_view what) {
  ordered_json root;
  Builder builder(what, root);
  if (!ordered_json::sax_parse(text.begin(), text.end(), &builder))
    fail("{}: not JSON", what);
  return root;
}

}  // namespace ingot
