// Continues token ids with a model, through the installed library.
//     uses_ingot MODEL N_TOKENS ID...      prints the N_TOKENS ids that follow
#include <ingot/ingot.h>

#include <cstdlib>
#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    ingot::LoadOptions load;
    load.float32 = true;
    ingot::LanguageModel model = ingot::LanguageModel::load(argv[1], load);
    std::vector<int> prompt;
    for (int i = 3; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));
    ingot::AnswerOptions options;
    options.max_tokens = std::atoi(argv[2]);
    options.ignore_end = true;
    const ingot::Answer answer = model.complete_tokens(prompt, options);
    for (const int token : answer.tokens) std::cout << token << '\n';
  } catch (const std::exception& error) {
    std::cerr << "uses_ingot: " << error.what() << '\n';
    return 1;
  }
}
