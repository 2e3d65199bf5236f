// Ingot as a library: load a model, ask it.
//
//   ingot::LanguageModel model = ingot::LanguageModel::load("qwen3-0.6b");
//   ingot::Answer answer = model.chat({{"user", "What is the capital of France?"}});
//
// Every function that can fail throws std::runtime_error whose what() is one line that
// names the file, what was found and what was wanted.  A LanguageModel is used by one
// thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct LoadOptions {
  int threads = 0;  // 0: all cores
  int context = 0;  // tokens; 0: the model's own, or what fits a quarter of the memory
  bool float32 =
      false;  // every product and all state in float32 (--act f32 --kv-type f32)
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// Unset fields take the model's own defaults (generation_config.json), else greedy.
struct AnswerOptions {
  std::optional<int> max_tokens;  // unset: until the context is full
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repeat_penalty;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stops;  // the text ends before the first of these
  bool ignore_end = false;         // go on after the end token
};

struct Answer {
  std::string text;                // UTF-8, control tokens left out
  std::vector<int> tokens;         // the end token included, if that ended it
  std::vector<int> prompt_tokens;  // what the model was fed
  std::string finish_reason;       // "stop" or "length"
};

// Hears text as soon as it is certain, never half a character.  Returning false ends the
// answer.
using TextListener = std::function<bool(std::string_view text)>;

class LanguageModel {
 public:
  // `model`: a directory, a .gguf file, hf:ORG/NAME..., or a name in the local store.
  static LanguageModel load(const std::string& model, const LoadOptions& options = {});
  ~LanguageModel();
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;

  // Answers the last message, through the model's chat template.  What the conversation
  // shares with the previous call is not computed again.
  Answer chat(const std::vector<Message>& messages, const AnswerOptions& options = {},
              const TextListener& on_text = {});
  // Continues the text as it stands.
  Answer complete(std::string_view prompt, const AnswerOptions& options = {},
                  const TextListener& on_text = {});
  // Continues token ids; needs no tokenizer.
  Answer complete_tokens(const std::vector<int>& prompt,
                         const AnswerOptions& options = {},
                         const TextListener& on_text = {});

  std::vector<int> tokenize(std::string_view text) const;  // nothing added
  std::string detokenize(const std::vector<int>& tokens) const;
  int context() const;
  int vocab_size() const;

 private:
  struct State;
  explicit LanguageModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ingot
