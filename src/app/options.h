// The flags that several commands share, and how they are declared.
#pragma once

#include <CLI/App.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "ops/ops.h"

namespace ingot {

// Flags of the machine: on every command that loads a model.
struct MachineFlags {
  std::string model;
  std::string backend = "auto";
  int threads = 0;  // 0: all cores
  std::string act = "auto";
  std::string kv_type = "f16";
  int context = 0;  // -c; 0: the model's own
  int chunk = 512;
  std::string chat_template;  // file
};
void add_machine_flags(CLI::App& app, MachineFlags& flags);

ActMode act_mode(const MachineFlags& flags);
KvType kv_type(const MachineFlags& flags);

// Flags of generation, unset where the model's own default counts.
struct GenerationFlags {
  std::optional<int> max_tokens;
  std::optional<float> temperature, top_p, min_p;
  std::optional<int> top_k;
  std::optional<float> repeat_penalty, presence_penalty, frequency_penalty;
  std::vector<std::string> logit_bias;  // ID=V
  std::optional<uint64_t> seed;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  bool raw = false;
  std::optional<std::string> system;
  std::optional<std::string> think;  // on | off
  std::string tokens;                // '[ids]'
};
void add_generation_flags(CLI::App& app, GenerationFlags& flags);

std::map<int, float> parse_logit_bias(const std::vector<std::string>& flags);
// '[1, 2, 3]' -> ids; throws usage Error naming the entry that is no integer.
std::vector<int> parse_token_list(const std::string& text);

// Declares flags of parts that are not built yet: each is refused with exit code 2.
void add_unbuilt_flags(CLI::App& app, const std::vector<std::string>& names);

}  // namespace ingot
