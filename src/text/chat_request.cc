// prepare_request of chat_template.h: an OpenAI-style body as a template expects it.
#include "base/error.h"
#include "base/hash.h"
#include "text/chat_template.h"
#include "text/jinja_eval.h"
#include "text/jinja_print.h"

namespace ingot {
namespace {

using nlohmann::ordered_json;

bool is_blank(const ordered_json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || (value.is_array() && value.empty());
}

// ---- What a template wants, found by rendering probes -------------------------------

struct TemplateWants {
  bool object_arguments = true;  // else the JSON text
  bool null_content = false;     // keeps null apart from ""
  bool content_parts = false;    // walks over lists of parts
};

// The rendering, or nothing when the template refuses.
std::optional<std::string> probe(const ChatTemplate& chat_template, ordered_json messages,
                                 const SpecialTokens& tokens) {
  ordered_json request;
  request["messages"] = std::move(messages);
  try {
    return render_chat(chat_template, request, tokens);
  } catch (const Error&) {  // an expected outcome here: the probe asks whether it works
    return {};
  }
}

ordered_json tool_call_messages(ordered_json arguments) {
  ordered_json function{{"name", "probe_name"}, {"arguments", std::move(arguments)}};
  ordered_json call{{"id", "call00000"}, {"type", "function"}, {"function", function}};
  return ordered_json::array({{{"role", "user"}, {"content", "probe question"}},
                              {{"role", "assistant"},
                               {"content", ""},
                               {"tool_calls", ordered_json::array({call})}},
                              {{"role", "tool"},
                               {"tool_call_id", "call00000"},
                               {"name", "probe_name"},
                               {"content", "probe result"}}});
}

// A call rendered; some templates show calls only beside null content.
std::optional<std::string> probe_call(const ChatTemplate& chat_template,
                                      const ordered_json& arguments,
                                      const SpecialTokens& tokens) {
  ordered_json messages = tool_call_messages(arguments);
  auto rendered = probe(chat_template, messages, tokens);
  if (rendered && rendered->find("probe_value") != std::string::npos) return rendered;
  messages[1]["content"] = nullptr;
  return probe(chat_template, messages, tokens);
}

bool wants_objects(const ChatTemplate& chat_template, const SpecialTokens& tokens) {
  const std::string text = R"({"probe_key": "probe_value"})";
  const auto with_object = probe_call(chat_template, ordered_json::parse(text), tokens);
  const auto with_text = probe_call(chat_template, text, tokens);
  // Python's repr is how a template shows that it did not expect an object.
  const bool object_good = with_object &&
                           with_object->find("probe_value") != std::string::npos &&
                           with_object->find("{'probe_key'") == std::string::npos;
  const bool text_good =
      with_text && with_text->find("probe_value") != std::string::npos &&
      with_text->find("\\\"probe_key") == std::string::npos;  // quoted twice
  return object_good || !text_good;
}

bool wants_parts(const ChatTemplate& chat_template, const SpecialTokens& tokens) {
  ordered_json part{{"type", "text"}, {"text", "probe part"}};
  const auto rendered = probe(
      chat_template,
      ordered_json::array({{{"role", "user"}, {"content", ordered_json::array({part})}}}),
      tokens);
  return rendered && rendered->find("probe part") != std::string::npos &&
         rendered->find("'probe part'") == std::string::npos &&
         rendered->find("\"probe part\"") == std::string::npos;
}

// A template that tests `is none` on content renders null without writing "None".
bool wants_null(const ChatTemplate& chat_template, const SpecialTokens& tokens) {
  ordered_json messages = tool_call_messages("{}");
  messages[1]["content"] = nullptr;
  const auto with_text_arguments = probe(chat_template, messages, tokens);
  messages[1]["tool_calls"][0]["function"]["arguments"] = ordered_json::object();
  const auto with_objects = probe(chat_template, messages, tokens);
  for (const auto& rendered : {with_text_arguments, with_objects}) {
    if (rendered && rendered->find("None") == std::string::npos) {
      return chat_template.source().find("is none") != std::string::npos ||
             chat_template.source().find("is not none") != std::string::npos;
    }
  }
  return false;
}

// ---- Messages -----------------------------------------------------------------------

[[noreturn]] void fail_message(size_t index, std::string_view what) {
  fail("messages[{}]: {}", index, what);
}

// json.dumps(value, ensure_ascii=False)
std::string python_json(const ordered_json& value) {
  const TemplateLimits limits;
  jinja::Run run(limits, "tool call arguments");
  return jinja::to_json(run, jinja::value_from_json(run, value, jinja::Origin::request),
                        {});
}

void prepare_arguments(ordered_json& call, bool as_object) {
  if (!call.is_object() || !call.contains("function")) return;
  ordered_json& function = call["function"];
  if (!function.is_object() || !function.contains("arguments")) return;
  ordered_json& arguments = function["arguments"];
  if (as_object && arguments.is_string()) {
    const auto& text = arguments.get_ref<const std::string&>();
    if (!ordered_json::accept(text)) return;  // the model's mistake stays visible
    ordered_json parsed = parse_request_json(text, "tool call arguments");
    if (parsed.is_object()) arguments = std::move(parsed);
  } else if (!as_object && arguments.is_object()) {
    arguments = python_json(arguments);
  }
}

std::string joined_parts(const ordered_json& parts, size_t index) {
  std::string text;
  bool first = true;
  for (const ordered_json& part : parts) {
    const bool good =
        part.is_object() && part.contains("text") && part["text"].is_string();
    if (!good)
      fail_message(index, "content has a part that is no text; only text is supported");
    if (!std::exchange(first, false)) text += "\n";
    text += part["text"].get<std::string>();
  }
  return text;
}

// Mistral's templates take ids of exactly nine letters and digits; both sides get the
// same.
std::string nine_letters(const std::string& id) {
  bool fits = id.size() == 9;
  for (char c : id) fits = fits && std::isalnum(static_cast<unsigned char>(c)) != 0;
  if (fits) return id;
  static constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  uint64_t hash =
      std::stoull(xxh128_hex(id.data(), id.size()).substr(0, 16), nullptr, 16);
  std::string out;
  for (int i = 0; i < 9; ++i, hash /= kLetters.size())
    out += kLetters[hash % kLetters.size()];
  return out;
}

void prepare_reasoning(ordered_json& message) {
  for (const char* from : {"reasoning_content", "reasoning"}) {
    auto found = message.find(from);
    if (found == message.end() || !found->is_string()) continue;
    const ordered_json text = *found;
    for (const char* to : {"reasoning_content", "thinking"}) {
      if (!message.contains(to)) message[to] = text;
    }
    return;
  }
}

void prepare_message(ordered_json& message, size_t index, const TemplateWants& wants,
                     bool short_ids) {
  if (!message.is_object()) fail_message(index, "is no JSON object");
  for (const char* key : {"tool_calls", "name", "tool_call_id"}) {
    if (message.contains(key) && is_blank(message[key])) message.erase(key);
  }
  if (message.contains("content")) {
    ordered_json& content = message["content"];
    if (content.is_null() && !wants.null_content) content = "";
    if (content.is_array() && !wants.content_parts)
      content = joined_parts(content, index);
  }
  prepare_reasoning(message);
  if (message.contains("tool_calls") && message["tool_calls"].is_array()) {
    for (ordered_json& call : message["tool_calls"]) {
      prepare_arguments(call, wants.object_arguments);
      if (short_ids && call.is_object() && call.contains("id") &&
          call["id"].is_string()) {
        call["id"] = nine_letters(call["id"].get<std::string>());
      }
    }
  }
  if (short_ids && message.contains("tool_call_id") &&
      message["tool_call_id"].is_string()) {
    message["tool_call_id"] = nine_letters(message["tool_call_id"].get<std::string>());
  }
}

bool any_message(const ordered_json& messages, const char* key) {
  for (const ordered_json& message : messages) {
    if (message.is_object() && message.contains(key) && !is_blank(message[key]))
      return true;
  }
  return false;
}

TemplateWants find_wants(const ChatTemplate& chat_template, const ordered_json& messages,
                         const SpecialTokens& tokens) {
  TemplateWants wants;
  bool any_null = false, any_parts = false;
  for (const ordered_json& message : messages) {
    if (!message.is_object() || !message.contains("content")) continue;
    any_null |= message["content"].is_null();
    any_parts |= message["content"].is_array();
  }
  // Only what the conversation has is worth a probe.
  if (any_message(messages, "tool_calls")) {
    wants.object_arguments = wants_objects(chat_template, tokens);
  }
  if (any_null) wants.null_content = wants_null(chat_template, tokens);
  if (any_parts) wants.content_parts = wants_parts(chat_template, tokens);
  return wants;
}

}  // namespace

ordered_json prepare_request(const ChatTemplate& chat_template,
                             const ordered_json& request, const SpecialTokens& tokens) {
  if (!request.is_object()) fail("the request is no JSON object");
  auto messages = request.find("messages");
  if (messages == request.end() || !messages->is_array())
    fail("messages: must be a list");
  ordered_json out;
  out["messages"] = *messages;
  auto tools = request.find("tools");
  if (tools != request.end() && !is_blank(*tools)) out["tools"] = *tools;
  out["add_generation_prompt"] = request.value("add_generation_prompt", true);
  for (const char* key :
       {"reasoning_effort", "enable_thinking", "documents", "continue_final_message"}) {
    if (request.contains(key) && !request[key].is_null()) out[key] = request[key];
  }
  auto extra = request.find("chat_template_kwargs");
  if (extra != request.end() && extra->is_object()) {
    for (const auto& [key, value] : extra->items()) out[key] = value;
  }
  const TemplateWants wants = find_wants(chat_template, out["messages"], tokens);
  const std::string& source = chat_template.source();
  const bool short_ids = source.find("[TOOL_CALLS]") != std::string::npos &&
                         source.find("length != 9") != std::string::npos;
  size_t index = 0;
  for (ordered_json& message : out["messages"]) {
    prepare_message(message, index++, wants, short_ids);
  }
  return out;
}

}  // namespace ingot
