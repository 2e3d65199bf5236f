// The public C++ API (include/ingot/ingot.h) over the same parts as the command line.
#include <utility>

#include "app/prompt.h"
#include "base/error.h"
#include "ingot/ingot.h"

namespace ingot {

struct LanguageModel::State {
  std::string name;
  std::unique_ptr<LoadedModel> loaded;
  Engine engine;
  Sequence sequence;

  State(std::string model, std::unique_ptr<LoadedModel> parts,
        const EngineOptions& options)
      : name(std::move(model)),
        loaded(std::move(parts)),
        engine(*loaded->model, options),
        sequence(engine.new_sequence()) {}

  const Tokenizer& tokenizer() const {
    if (!loaded->text.tokenizer) fail("{}: has no tokenizer", name);
    return *loaded->text.tokenizer;
  }

  Answer answer(std::vector<int> prompt, const AnswerOptions& options,
                const TextListener& on_text);
};

Answer LanguageModel::State::answer(std::vector<int> prompt, const AnswerOptions& options,
                                    const TextListener& on_text) {
  GenerationFlags flags;
  flags.max_tokens = options.max_tokens;
  flags.temperature = options.temperature;
  flags.top_k = options.top_k;
  flags.top_p = options.top_p;
  flags.min_p = options.min_p;
  flags.repeat_penalty = options.repeat_penalty;
  flags.seed = options.seed;
  flags.stops = options.stops;
  flags.ignore_eos = options.ignore_end;
  const GenerateOptions chosen = generate_options(flags, *loaded);
  const Tokenizer* text = loaded->text.tokenizer ? &*loaded->text.tokenizer : nullptr;
  Generation out =
      generate(engine, sequence, text, prompt, chosen,
               [&](std::string_view piece) { return !on_text || on_text(piece); }, {});
  return {std::move(out.text), std::move(out.tokens), std::move(prompt),
          std::string(ingot::name(out.finish))};
}

LanguageModel::LanguageModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LanguageModel::~LanguageModel() = default;
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;

LanguageModel LanguageModel::load(const std::string& model, const LoadOptions& options) {
  MachineFlags flags;
  flags.model = model;
  flags.threads = options.threads;
  flags.context = options.context;
  if (options.float32) flags.act = flags.kv_type = "f32";
  return LanguageModel(std::make_unique<State>(
      model, load_everything(flags),
      EngineOptions{.context = flags.context, .kv_type = kv_type(flags)}));
}

Answer LanguageModel::chat(const std::vector<Message>& messages,
                           const AnswerOptions& options, const TextListener& on_text) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  std::vector<int> prompt =
      encode_chat(state_->loaded->text, chat_request({}, list), state_->name);
  return state_->answer(std::move(prompt), options, on_text);
}

Answer LanguageModel::complete(std::string_view prompt, const AnswerOptions& options,
                               const TextListener& on_text) {
  return state_->answer(
      encode_raw(state_->loaded->text, std::string(prompt), state_->name), options,
      on_text);
}

Answer LanguageModel::complete_tokens(const std::vector<int>& prompt,
                                      const AnswerOptions& options,
                                      const TextListener& on_text) {
  return state_->answer(prompt, options, on_text);
}

std::vector<int> LanguageModel::tokenize(std::string_view text) const {
  return state_->tokenizer().encode(text);
}

std::string LanguageModel::detokenize(const std::vector<int>& tokens) const {
  return state_->tokenizer().decode(tokens, /*skip_special=*/true);
}

int LanguageModel::context() const { return state_->engine.context(); }
int LanguageModel::vocab_size() const { return state_->loaded->model->recipe.vocab_size; }

}  // namespace ingot
