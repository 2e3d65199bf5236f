// The families, each a reading of config.json and one of GGUF metadata.  `type` is the
// model_type or architecture, already read.
#pragma once

#include "model/derive/decoder.h"

namespace ingot {

using DeriveFamily = Recipe(const Checkpoint& checkpoint, const Fields& fields,
                            const std::string& type);

DeriveFamily derive_llama_config;  // llama mistral qwen2 qwen3
DeriveFamily derive_llama_gguf;    // llama (mixtral too) qwen2 qwen3
DeriveFamily derive_gemma3_config;
DeriveFamily derive_gemma3_gguf;
DeriveFamily derive_gpt2_config;
DeriveFamily derive_gpt2_gguf;
DeriveFamily derive_olmo3_config;
DeriveFamily derive_olmo3_gguf;  // olmo2, of which only Olmo 3
DeriveFamily derive_smollm3_config;
DeriveFamily derive_smollm3_gguf;
DeriveFamily derive_phi3_config;
DeriveFamily derive_phi3_gguf;
DeriveFamily derive_qwen3_moe_config;
DeriveFamily derive_qwen3_moe_gguf;
DeriveFamily derive_mixtral_config;
DeriveFamily derive_glm4_moe_config;
DeriveFamily derive_glm4_moe_gguf;
DeriveFamily derive_minimax_m2_config;
DeriveFamily derive_minimax_m2_gguf;
DeriveFamily derive_gpt_oss_config;
DeriveFamily derive_gpt_oss_gguf;
DeriveFamily derive_qwen_hybrid_config;  // qwen3_next qwen3_5 qwen3_5_moe
DeriveFamily derive_qwen_hybrid_gguf;    // qwen3next qwen35 qwen35moe
DeriveFamily derive_deepseek_config;     // deepseek_v3 deepseek_v32 glm_moe_dsa
DeriveFamily derive_deepseek_gguf;       // deepseek2 deepseek32 glm-dsa

}  // namespace ingot
