#include "text/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja_eval.h"
#include "text/jinja_parser.h"
#include "text/jinja_unicode.h"

namespace ingot {

using nlohmann::ordered_json;

std::tm local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

ChatTemplate::ChatTemplate(std::string source, std::string name_for_messages,
                           TemplateLimits limits, TemplateClock clock)
    : source_(std::move(source)),
      name_(std::move(name_for_messages)),
      limits_(limits),
      clock_(std::move(clock)),
      program_(jinja::parse(source_, name_, limits_)) {}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const ordered_json& context) const {
  jinja::Interpreter interpreter(*program_, limits_, name_, clock_);
  return interpreter.render(context, {}).text;
}

std::vector<PromptSegment> ChatTemplate::render_segments(
    const ordered_json& context, const std::vector<std::string_view>& trusted) const {
  jinja::Interpreter interpreter(*program_, limits_, name_, clock_);
  const jinja::MarkedText marked = interpreter.render(context, trusted);
  std::vector<PromptSegment> segments;
  size_t at = 0;
  for (const jinja::Span& span : marked.foreign) {
    if (at < span.begin)
      segments.push_back({marked.text.substr(at, span.begin - at), false});
    segments.push_back({marked.text.substr(span.begin, span.end - span.begin), true});
    at = span.end;
  }
  if (at < marked.text.size()) segments.push_back({marked.text.substr(at), false});
  return segments;
}

// ---- Where templates and tokens come from -------------------------------------------

namespace {

ordered_json parse_config(const std::string& text, const std::string& name) {
  ordered_json config = parse_request_json(text, name);
  if (!config.is_object()) fail("{}: the file holds no JSON object", name);
  return config;
}

// A token is its text, or an object with the text in "content".
std::optional<std::string> token_text(const ordered_json& value) {
  const ordered_json* text = &value;
  if (value.is_object()) {
    auto content = value.find("content");
    if (content == value.end()) return {};
    text = &*content;
  }
  if (!text->is_string()) return {};
  return text->get<std::string>();
}

void add_token(SpecialTokens& tokens, const std::string& name,
               const ordered_json& value) {
  const std::optional<std::string> text = token_text(value);
  if (!text) return;
  for (const auto& token : tokens) {
    if (token.first == name) return;
  }
  tokens.emplace_back(name, *text);
}

// "chat_template" is a string, or a list of {"name", "template"}.
void config_templates(const TemplateSources& sources,
                      std::vector<std::pair<std::string, std::string>>& named) {
  if (sources.tokenizer_config_json.empty()) return;
  const ordered_json config =
      parse_config(sources.tokenizer_config_json,
                   sources.name_for_messages + ": tokenizer_config.json");
  auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return;
  if (found->is_string()) {
    named.emplace_back("default", found->get<std::string>());
    return;
  }
  const char* wanted = "a string or a list of {\"name\", \"template\"}";
  if (!found->is_array()) {
    fail("{}: tokenizer_config.json: chat_template is {}, wanted {}",
         sources.name_for_messages, found->type_name(), wanted);
  }
  for (const ordered_json& entry : *found) {
    const bool good = entry.is_object() && entry.contains("name") &&
                      entry.contains("template") && entry["name"].is_string() &&
                      entry["template"].is_string();
    if (!good) {
      fail("{}: tokenizer_config.json: chat_template has an entry that is not wanted: {}",
           sources.name_for_messages, wanted);
    }
    named.emplace_back(entry["name"].get<std::string>(),
                       entry["template"].get<std::string>());
  }
}

}  // namespace

SpecialTokens special_tokens_from_config(const std::string& tokenizer_config_json,
                                         const std::string& name_for_messages) {
  SpecialTokens tokens;
  if (tokenizer_config_json.empty()) return tokens;
  const ordered_json config = parse_config(tokenizer_config_json, name_for_messages);
  for (const auto& [key, value] : config.items()) {
    if (key.ends_with("_token")) add_token(tokens, key, value);
  }
  auto extra = config.find("extra_special_tokens");
  if (extra != config.end() && extra->is_object()) {
    for (const auto& [key, value] : extra->items()) add_token(tokens, key, value);
  }
  return tokens;
}

std::optional<std::string> choose_template(const TemplateSources& sources,
                                           bool have_tools) {
  // First found wins for each name: files of their own, then the config, then GGUF.
  std::vector<std::pair<std::string, std::string>> named;
  if (!sources.chat_template_jinja.empty()) {
    named.emplace_back("default", sources.chat_template_jinja);
  }
  named.insert(named.end(), sources.named.begin(), sources.named.end());
  config_templates(sources, named);
  if (!sources.gguf_template.empty())
    named.emplace_back("default", sources.gguf_template);
  if (named.empty()) return {};
  auto find = [&](std::string_view name) {
    return std::find_if(named.begin(), named.end(),
                        [&](const auto& entry) { return entry.first == name; });
  };
  if (have_tools && find("tool_use") != named.end()) return find("tool_use")->second;
  if (find("default") != named.end()) return find("default")->second;
  std::string names;
  for (const auto& entry : named) names += " " + printable_text(entry.first);
  fail("{}: has chat templates but none called default:{}", sources.name_for_messages,
       names);
}

// ---- Conversations ------------------------------------------------------------------

namespace {

bool is_true(const ordered_json& request, const char* key) {
  auto found = request.find(key);
  return found != request.end() && found->is_boolean() && found->get<bool>();
}

struct ChatContext {
  ordered_json variables;
  std::vector<std::string_view> trusted;  // views into the special tokens' names
};

ChatContext chat_context(const ChatTemplate& chat_template, const ordered_json& request,
                         const SpecialTokens& tokens) {
  if (!request.is_object())
    fail("{}: the request is no JSON object", chat_template.name());
  auto messages = request.find("messages");
  if (messages == request.end() || !messages->is_array()) {
    fail("{}: the request's 'messages' must be a list", chat_template.name());
  }
  ChatContext context;
  for (const auto& [name, text] : tokens) {
    context.variables[name] = text;
    if (!request.contains(name)) context.trusted.push_back(name);
  }
  context.variables["tools"] = nullptr;
  context.variables["documents"] = nullptr;
  context.variables["add_generation_prompt"] = false;
  for (const auto& [key, value] : request.items()) {
    if (key != "continue_final_message") context.variables[key] = value;
  }
  return context;
}

// The text that the answer continues: the last message's, or its last text part's.
std::string final_text(const ChatTemplate& chat_template, const ordered_json& messages) {
  if (!messages.empty() && messages.back().is_object()) {
    const ordered_json& last = messages.back();
    auto content = last.find("content");
    if (content != last.end() && content->is_string()) return content->get<std::string>();
    if (content != last.end() && content->is_array()) {
      for (auto part = content->rbegin(); part != content->rend(); ++part) {
        if (part->is_object() && part->contains("text") && (*part)["text"].is_string()) {
          return (*part)["text"].get<std::string>();
        }
      }
    }
  }
  fail("{}: continue_final_message is set but the last message has no text",
       chat_template.name());
}

// Where the rendering is cut so that an answer continues the last message.
size_t continuation_end(const ChatTemplate& chat_template, const ordered_json& request,
                        const std::string& rendered) {
  if (is_true(request, "add_generation_prompt")) {
    fail("{}: continue_final_message and add_generation_prompt exclude each other",
         chat_template.name());
  }
  const std::string text = final_text(chat_template, request["messages"]);
  const size_t lead = jinja::leading_space(text);
  const std::string without_lead = text.substr(lead);
  const std::string bare =
      without_lead.substr(0, without_lead.size() - jinja::trailing_space(without_lead));
  const size_t at = rendered.rfind(bare);
  if (at == std::string::npos) {
    fail("{}: continue_final_message is set but the last message is not in the rendering",
         chat_template.name());
  }
  // Trailing space of the message counts only where the template kept it.
  const bool kept = rendered.compare(at, without_lead.size(), text) == 0;
  return at + (kept ? without_lead.size() : bare.size());
}

}  // namespace

std::string render_chat(const ChatTemplate& chat_template, const ordered_json& request,
                        const SpecialTokens& tokens) {
  const ChatContext context = chat_context(chat_template, request, tokens);
  std::string rendered = chat_template.render(context.variables);
  if (is_true(request, "continue_final_message")) {
    rendered.resize(continuation_end(chat_template, request, rendered));
  }
  return rendered;
}

GuardedPrompt render_chat_guarded(const ChatTemplate& chat_template,
                                  const ordered_json& request,
                                  const SpecialTokens& tokens) {
  const ChatContext context = chat_context(chat_template, request, tokens);
  GuardedPrompt prompt;
  prompt.segments = chat_template.render_segments(context.variables, context.trusted);
  if (!is_true(request, "continue_final_message")) return prompt;
  std::string rendered;
  for (const PromptSegment& segment : prompt.segments) rendered += segment.text;
  size_t room = continuation_end(chat_template, request, rendered);
  std::vector<PromptSegment> kept;
  for (PromptSegment& segment : prompt.segments) {
    if (room == 0) break;
    if (segment.text.size() > room) segment.text.resize(room);
    room -= segment.text.size();
    kept.push_back(std::move(segment));
  }
  prompt.segments = std::move(kept);
  return prompt;
}

}  // namespace ingot
