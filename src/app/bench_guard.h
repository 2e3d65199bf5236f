// The token guard: a benchmark's numbers count only when the tokens are right.
//
// A guard file is JSON:
//   {"made_by": "transformers 5.17.0, float32, eager",   the independent reference
//    "model": "SmolLM2-135M-Instruct Q4_1",              for people
//    "prompt_tokens": [ids],
//    "tokens": [ids],           its greedy continuation
//    "gaps": [numbers],         optional: how far each token led the second best
//    "bound": number,           optional, with gaps: tokens count up to the first smaller
//    gap "flags": {"act": "f32", "kv_type": "f32"}}          optional: the run it holds
//    for
// made_by must name another program than this one: output recorded from an engine
// preserves that engine's faults.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/options.h"
#include "engine/engine.h"

namespace ingot {

struct BenchGuard {
  std::string file;
  std::string made_by;
  std::vector<int> prompt;
  std::vector<int> tokens;  // as many as count
};

// Throws Error naming the file and the field; usage Error where `machine` has other flags
// than the guard holds for.
BenchGuard read_guard(const std::filesystem::path& file, const MachineFlags& machine);

// Throws Error at the first token that differs.
void check_guard(const BenchGuard& guard, Engine& engine);

}  // namespace ingot
