// A conversation as a list of messages, in memory and as a JSON file.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ingot {

// Messages are {"role", "content"}; a system message, where there is one, comes first.
class ChatMessages {
 public:
  const nlohmann::ordered_json& list() const { return list_; }
  bool last_is(const char* role) const;
  void add(const char* role, const std::string& content);
  void drop_last();
  // Nothing: no system message.  An empty one is another thing: it keeps a template from
  // putting its own.
  void set_system(const std::optional<std::string>& text);
  void clear();  // all but the system message

  // {"model", "messages"}: `ingot template` reads it too.  Throws Error when the file
  // cannot be written.
  void save(const std::filesystem::path& file, const std::string& model) const;
  // Of a saved conversation, or a bare list of messages.  Throws Error naming the file,
  // the entry, what was found and what was wanted; the messages are then as before.
  void load(const std::filesystem::path& file);

 private:
  nlohmann::ordered_json list_ = nlohmann::ordered_json::array();
};

}  // namespace ingot
