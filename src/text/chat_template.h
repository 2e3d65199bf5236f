// Chat templates: a conversation in, the text that the model was trained to see out.
// The template language is Jinja as Hugging Face runs it (jinja_eval.h says how close);
// templates come with model files and are hostile, so every render runs under limits.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_limits.h"

namespace ingot {

namespace jinja {
struct Program;
}

// Local time for strftime_now; tests put a fixed one here.
using TemplateClock = std::function<std::tm()>;
std::tm local_time_now();

// One piece of a rendering.  Text that came from the request is encoded as plain letters,
// so that a user cannot write control tokens (docs/decisions).
struct PromptSegment {
  std::string text;
  bool from_request = false;
};

// Immutable after construction; const calls from any thread.
class ChatTemplate {
 public:
  // name_for_messages opens every error: "NAME: line 3: expected ...".
  // Throws Error on a syntax error.
  ChatTemplate(std::string source, std::string name_for_messages,
               TemplateLimits limits = {}, TemplateClock clock = local_time_now);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // context: an object; its keys become variables.  Throws Error: the template's own
  // words (raise_exception), a type error with its line, or the limit that was reached.
  std::string render(const nlohmann::ordered_json& context) const;

  // The same text in pieces: what the template wrote, and what came from the variables;
  // those named in `trusted` (special tokens) count as the template's.  The engine
  // follows each string through the template, so the text is the same whatever the
  // template does.
  std::vector<PromptSegment> render_segments(
      const nlohmann::ordered_json& context,
      const std::vector<std::string_view>& trusted) const;

  const std::string& source() const { return source_; }
  const std::string& name() const { return name_; }

 private:
  std::string source_;
  std::string name_;
  TemplateLimits limits_;
  TemplateClock clock_;
  std::unique_ptr<const jinja::Program> program_;
};

// bos_token, eos_token, pad_token, ...: the name that templates use, and the text.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

// From the text of tokenizer_config.json: every "*_token" whose value is a string or an
// added-token object, and what extra_special_tokens holds.
SpecialTokens special_tokens_from_config(const std::string& tokenizer_config_json,
                                         const std::string& name_for_messages);

// Where a model may keep its chat template.  Empty: not there.
struct TemplateSources {
  std::string tokenizer_config_json;  // text of the file; "chat_template" string or list
  std::string chat_template_jinja;    // text of chat_template.jinja: wins over the above
  std::vector<std::pair<std::string, std::string>>
      named;                      // additional_chat_templates/*.jinja,
                                  // tokenizer.chat_template.NAME
  std::string gguf_template;      // tokenizer.chat_template
  std::string name_for_messages;  // the model's path
};

// The source to use: "tool_use" when the request has tools and the model ships one, else
// the default.  Nothing when the model has no template; Error when it has only others.
std::optional<std::string> choose_template(const TemplateSources& sources,
                                           bool have_tools);

// What transformers' apply_chat_template(conversation, tools=..., **kwargs) returns,
// where `request` is {"messages", "tools", "add_generation_prompt", ...further
// variables}: special tokens are variables, absent tools and documents are none,
// add_generation_prompt defaults to false, continue_final_message is honoured.
std::string render_chat(const ChatTemplate& chat_template,
                        const nlohmann::ordered_json& request,
                        const SpecialTokens& tokens);

// The same text, cut into what the template wrote and what the request brought.
struct GuardedPrompt {
  std::vector<PromptSegment> segments;  // joined: exactly render_chat()'s text
};
GuardedPrompt render_chat_guarded(const ChatTemplate& chat_template,
                                  const nlohmann::ordered_json& request,
                                  const SpecialTokens& tokens);

// Turns an OpenAI-style body into what templates expect (tokenizers.md 21): empty
// tool_calls, tools and names are dropped, tool-call arguments become objects where this
// template wants objects, null content becomes "" where it cannot be null, lists of text
// parts become text where the template does not iterate over them, reasoning_content and
// reasoning are aliases. Extra variables come from chat_template_kwargs and
// reasoning_effort.
nlohmann::ordered_json prepare_request(const ChatTemplate& chat_template,
                                       const nlohmann::ordered_json& request,
                                       const SpecialTokens& tokens);

// JSON as Python's json.loads reads it: keys in order, the last of two equal keys wins,
// and integers of any size survive to tojson.  Throws Error naming `what` and the place.
nlohmann::ordered_json parse_request_json(std::string_view text, std::string_view what);

}  // namespace ingot
