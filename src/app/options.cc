#include "app/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"

namespace ingot {

void add_unbuilt_flags(CLI::App& app, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    app.add_option_function<std::string>(
           name,
           [name](const std::string&) { fail_usage("flag {}: not built yet", name); })
        ->expected(0, 1)
        ->group("");
  }
}

void add_machine_flags(CLI::App& app, MachineFlags& flags) {
  app.add_option(
         "MODEL", flags.model,
         "model directory, .gguf file, hf:ORG/NAME[@REV][:FILE|:QUANT], or a name in "
         "the local store")
      ->required();
  const std::string group = "Machine";
  app.add_option("--backend", flags.backend, "auto or cpu")->group(group);
  app.add_option("-t,--threads", flags.threads, "threads (default: all cores)")
      ->group(group);
  app.add_option("--act", flags.act,
                 "numeric mode: auto (quantised weights meet int8 activations) or f32")
      ->group(group);
  app.add_option("--kv-type", flags.kv_type, "keys and values: f16, bf16, f32 or q8")
      ->group(group);
  app.add_option("-c,--ctx", flags.context,
                 "context in tokens (default: the model's own)")
      ->group(group);
  app.add_option("--chunk", flags.chunk, "prompt tokens a pass")->group(group);
  app.add_option("--chat-template", flags.chat_template, "Jinja file to use instead")
      ->group(group);
  app.add_flag_function(
         "-v,--verbose",
         [](int64_t count) {
           set_log_level(count > 1 ? LogLevel::debug : LogLevel::info);
         },
         "say more on standard error")
      ->group(group);
  add_unbuilt_flags(app, {"--device", "--tp", "--rope-scaling", "--rope-theta"});
}

ActMode act_mode(const MachineFlags& flags) {
  if (flags.act == "auto") return ActMode::automatic;
  if (flags.act == "f32") return ActMode::f32;
  if (flags.act == "f16" || flags.act == "bf16")
    fail_usage("flag --act {}: not built yet", flags.act);
  fail_usage("flag --act is '{}', wanted auto or f32", flags.act);
}

KvType kv_type(const MachineFlags& flags) {
  if (flags.kv_type == "f16") return KvType::f16;
  if (flags.kv_type == "bf16") return KvType::bf16;
  if (flags.kv_type == "f32") return KvType::f32;
  if (flags.kv_type == "q8") return KvType::q8;
  fail_usage("flag --kv-type is '{}', wanted f16, bf16, f32 or q8", flags.kv_type);
}

void add_generation_flags(CLI::App& app, GenerationFlags& flags) {
  const std::string group = "Generation (defaults: the model's generation_config.json)";
  // A list takes one value each time it is named: what follows may be the prompt.
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(group)->allow_extra_args(false);
  };
  const auto not_negative = [](const std::string& text) {
    return text.starts_with('-') ? text + ": wanted 0 or more" : std::string();
  };
  option("-n,--max-tokens", flags.max_tokens,
         "most tokens to answer; -1: as many as the context allows (default)");
  option("--temp", flags.temperature, "temperature; 0 takes the most likely token");
  option("--top-k", flags.top_k, "keep the k most likely tokens; 0: off");
  option("--top-p", flags.top_p, "keep the smallest set of at least this probability");
  option("--min-p", flags.min_p,
         "drop tokens below this share of the best one's probability");
  option("--repeat-penalty", flags.repeat_penalty,
         "divides logits of tokens seen; 1: off");
  option("--presence-penalty", flags.presence_penalty,
         "subtracted once per token answered");
  option("--frequency-penalty", flags.frequency_penalty,
         "subtracted for each time answered");
  option("--logit-bias", flags.logit_bias,
         "ID=V, repeatable: added to that token's logit");
  option("--seed", flags.seed, "of the sampler (default: from the clock)")
      ->check(not_negative);  // the parser would wrap it around
  option("--stop", flags.stops, "end before this text, repeatable");
  option("--system", flags.system, "system message");
  option("--think", flags.think, "on or off, for templates that know enable_thinking");
  option("--tokens", flags.tokens, "the prompt as token ids, '[1, 2]': nothing is added");
  app.add_flag("--ignore-eos", flags.ignore_eos, "go on after the end token")
      ->group(group);
  app.add_flag("--raw", flags.raw, "no chat template")->group(group);
  add_unbuilt_flags(app, {"--json-schema", "--grammar", "--typical", "--top-n-sigma",
                          "--xtc-probability", "--xtc-threshold", "--dry-multiplier",
                          "--dry-base", "--dry-allowed-length", "--dry-penalty-last-n",
                          "--dry-sequence-breaker", "--mirostat", "--mirostat-lr",
                          "--mirostat-ent", "--logprobs", "--draft-depth"});
  // "off" is what there is already.
  const auto only_off = [&app](const char* name) {
    app.add_option_function<std::string>(name,
                                         [name](const std::string& value) {
                                           if (value != "off")
                                             fail_usage("flag {} {}: not built yet", name,
                                                        value);
                                         })
        ->group("");
  };
  only_off("--draft");
  only_off("--prefix-cache");
}

std::map<int, float> parse_logit_bias(const std::vector<std::string>& flags) {
  std::map<int, float> out;
  for (const std::string& flag : flags) {
    const size_t equals = flag.find('=');
    int id = 0;
    float value = 0;
    const char* end = flag.data() + flag.size();
    const char* split = flag.data() + std::min(equals, flag.size());
    const bool good = equals != std::string::npos &&
                      std::from_chars(flag.data(), split, id).ptr == split &&
                      std::from_chars(split + 1, end, value).ptr == end &&
                      split + 1 < end;
    if (!good) fail_usage("flag --logit-bias is '{}', wanted ID=V", flag);
    out[id] = value;
  }
  return out;
}

std::vector<int> parse_token_list(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array())
    fail_usage("flag --tokens is '{}', wanted a JSON list of ids", text);
  std::vector<int> out;
  for (const auto& item : list) {
    const bool fits = item.is_number_integer() && item >= -1 && item <= (1 << 30);
    if (!fits) fail_usage("flag --tokens holds {}, wanted token ids", item.dump());
    out.push_back(item.get<int>());
  }
  return out;
}

}  // namespace ingot
