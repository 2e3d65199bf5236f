// Greedy tokens of a GGUF model by llama.cpp, the second witness of compare_llama_cpp.py.
//
//   g++ -O1 -std=c++17 -I LLAMA/include -I LLAMA/ggml/include llama_cpp_greedy.cc
//     -o llama_cpp_greedy libllama.a libggml.a libggml-cpu.a libggml-base.a -lpthread
//     -ldl -fopenmp
//   ./llama_cpp_greedy MODEL.gguf N ID...
//
// Keys and values in float32 and no flash attention: in half they move a router's choice.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) return 1;
  std::vector<llama_token> tokens;
  for (int i = 3; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  const int n_answer = std::atoi(argv[2]);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = static_cast<uint32_t>(tokens.size()) + n_answer;
  params.n_threads = params.n_threads_batch = 2;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (!context) return 1;
  const int vocab_size = llama_vocab_n_tokens(llama_model_get_vocab(model));
  llama_batch batch = llama_batch_get_one(tokens.data(), static_cast<int>(tokens.size()));
  llama_token best = 0;
  for (int step = 0; step < n_answer; ++step) {
    if (llama_decode(context, batch) != 0) return 1;
    const float* logits = llama_get_logits_ith(context, -1);
    best = 0;
    for (int t = 1; t < vocab_size; ++t)
      if (logits[t] > logits[best]) best = t;
    std::printf("%d ", best);
    batch = llama_batch_get_one(&best, 1);
  }
  std::puts("");
}
