#include "app/prompt.h"

#include <chrono>
#include <iostream>
#include <iterator>

#include "base/error.h"

namespace ingot {

GenerateOptions generate_options(const GenerationFlags& flags, const LoadedModel& model) {
  const GenerationConfig& own = model.generation;
  GenerateOptions out;
  SamplerArgs& args = out.sampler.args;
  args.temperature = flags.temperature.value_or(own.temperature);
  args.top_k = flags.top_k.value_or(own.top_k);
  args.top_p = flags.top_p.value_or(own.top_p);
  args.min_p = flags.min_p.value_or(own.min_p);
  args.repeat_penalty = flags.repeat_penalty.value_or(own.repeat_penalty);
  args.presence_penalty = flags.presence_penalty.value_or(0.0f);
  args.frequency_penalty = flags.frequency_penalty.value_or(0.0f);
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  args.seed = flags.seed.value_or(uint64_t(now));
  out.sampler.logit_bias = parse_logit_bias(flags.logit_bias);
  if (model.text.tokenizer)
    out.sampler.n_tokens_with_text = model.text.tokenizer->vocab_size();
  if (flags.max_tokens) {
    if (*flags.max_tokens < -1)
      fail_usage(
          "flag --max-tokens is {}, wanted 0 or more, or -1: as the context allows",
          *flags.max_tokens);
    out.max_tokens = *flags.max_tokens;
  }
  if (!flags.ignore_eos) out.stop_ids = model.stop_ids;
  out.stop_strings = flags.stops;
  check_sampler_options(out.sampler, model.model->recipe.vocab_size);
  return out;
}

nlohmann::ordered_json chat_request(const GenerationFlags& flags,
                                    const nlohmann::ordered_json& messages) {
  nlohmann::ordered_json request;
  request["messages"] = messages;
  request["add_generation_prompt"] = true;
  if (flags.think) {
    if (*flags.think != "on" && *flags.think != "off")
      fail_usage("flag --think is '{}', wanted on or off", *flags.think);
    request["enable_thinking"] = *flags.think == "on";
  }
  return request;
}

std::vector<int> encode_raw(const TextParts& text, const std::string& prompt,
                            const std::string& model_name) {
  if (!text.tokenizer)
    fail("{}: has no tokenizer, wanted one to encode a prompt (or --tokens)", model_name);
  std::vector<int> ids = text.tokenizer->encode(prompt, {.add_special = true});
  const std::optional<int> bos = text.tokenizer->bos_id();
  if (bos && ids.size() >= 2 && ids[0] == *bos && ids[1] == *bos) ids.erase(ids.begin());
  return ids;
}

std::string read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

}  // namespace ingot
