#include "app/chat_messages.h"

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "text/chat_template.h"

namespace ingot {

using nlohmann::ordered_json;

namespace {

constexpr size_t kMaxFileBytes = 64 << 20;

bool has_role(const ordered_json& message, const char* role) {
  return message["role"].get_ref<const std::string&>() == role;
}

void check_message(const ordered_json& message, size_t index, const std::string& file) {
  if (!message.is_object()) fail("{}: message {} is no object, wanted one", file, index);
  for (const char* field : {"role", "content"}) {
    if (!message.contains(field) || !message[field].is_string())
      fail("{}: message {}: field '{}' is {}, wanted text", file, index, field,
           message.contains(field) ? message[field].type_name() : "missing");
  }
  const std::string role = message["role"];
  if (role != "system" && role != "user" && role != "assistant")
    fail("{}: message {}: field 'role' is '{}', wanted system, user or assistant", file,
         index, printable_text(role));
  if (role == "system" && index != 0)
    fail("{}: message {}: is a system message, wanted it first", file, index);
}

}  // namespace

bool ChatMessages::last_is(const char* role) const {
  return !list_.empty() && has_role(list_.back(), role);
}

void ChatMessages::add(const char* role, const std::string& content) {
  list_.push_back({{"role", role}, {"content", content}});
}

void ChatMessages::drop_last() { list_.erase(list_.size() - 1); }

void ChatMessages::set_system(const std::optional<std::string>& text) {
  const bool there = !list_.empty() && has_role(list_[0], "system");
  if (there) list_.erase(0);
  if (text)
    list_.insert(list_.begin(), ordered_json{{"role", "system"}, {"content", *text}});
}

void ChatMessages::clear() {
  const bool system = !list_.empty() && has_role(list_[0], "system");
  const ordered_json first = system ? list_[0] : ordered_json();
  list_ = ordered_json::array();
  if (system) list_.push_back(first);
}

void ChatMessages::save(const std::filesystem::path& file,
                        const std::string& model) const {
  const ordered_json document = {{"model", printable_text(model)}, {"messages", list_}};
  AtomicFile out(file);
  out.write(document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  out.commit();
}

void ChatMessages::load(const std::filesystem::path& file) {
  const std::string name = printable(file);
  ordered_json document = parse_request_json(read_file(file, kMaxFileBytes), name);
  if (document.is_object() && document.contains("messages"))
    document = ordered_json(document["messages"]);
  if (!document.is_array())
    fail("{}: is no list of messages and has no field 'messages', wanted a saved chat",
         name);
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < document.size(); ++i) {
    check_message(document[i], i, name);
    list.push_back({{"role", document[i]["role"]}, {"content", document[i]["content"]}});
  }
  list_ = std::move(list);
}

}  // namespace ingot
