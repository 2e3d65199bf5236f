// `ingot tokenize`, `detokenize` and `template`: one step of the text side each.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <sstream>

#include "app/commands.h"
#include "app/prompt.h"
#include "base/error.h"
#include "formats/store.h"

namespace ingot {
namespace {

using nlohmann::json;

struct TextFlags {
  std::string model;
  std::string chat_template;
  bool jsonl = false;
  bool bos = false;
  bool no_special = false;
  bool skip_special = false;
  bool ids = false;
};

Tokenizer load_tokenizer(const TextFlags& flags) {
  TextParts text = load_text(resolve_model(flags.model), {});
  if (!text.tokenizer) fail("{}: has no tokenizer", flags.model);
  return std::move(*text.tokenizer);
}

void print_line(const std::string& line) {
  std::cout << line << '\n';
  if (!std::cout) fail("standard output: cannot be written");
}

// Calls use(document) for each line of standard input; errors name the line.
template <typename Use>
void each_json_line(const Use& use) {
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    const json document = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (document.is_discarded()) fail_usage("standard input, line {}: not JSON", number);
    use(document, number);
  }
}

int tokenize(const TextFlags& flags) {
  const Tokenizer tokenizer = load_tokenizer(flags);
  const EncodeOptions options{.add_special = flags.bos,
                              .parse_special = !flags.no_special};
  if (!flags.jsonl) {
    const std::vector<int> ids = tokenizer.encode(read_standard_input(), options);
    print_line(fmt::format("{}", fmt::join(ids, " ")));
    return 0;
  }
  each_json_line([&](const json& text, int number) {
    if (!text.is_string())
      fail_usage("standard input, line {}: is no JSON string, wanted one", number);
    print_line(json(tokenizer.encode(text.get<std::string>(), options)).dump());
  });
  return 0;
}

std::vector<int> ids_of(const json& list, const std::string& where) {
  if (!list.is_array()) fail_usage("{}: is no JSON list of ids, wanted one", where);
  std::vector<int> ids;
  for (const json& item : list) {
    const bool good = item.is_number_integer() && item >= 0 && item <= (1 << 30);
    if (!good) fail_usage("{}: holds {}, wanted token ids", where, item.dump());
    ids.push_back(item.get<int>());
  }
  return ids;
}

int detokenize(const TextFlags& flags) {
  const Tokenizer tokenizer = load_tokenizer(flags);
  if (flags.jsonl) {
    each_json_line([&](const json& list, int number) {
      const std::vector<int> ids =
          ids_of(list, fmt::format("standard input, line {}", number));
      print_line(json(tokenizer.decode(ids, flags.skip_special)).dump());
    });
    return 0;
  }
  // A JSON list, or ids between white space or commas.
  std::string input = read_standard_input();
  json list = json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) {
    for (char& c : input)
      if (c == ',') c = ' ';
    std::istringstream words(input);
    list = json::array();
    for (std::string word; words >> word;) {
      const json id = json::parse(word, nullptr, /*allow_exceptions=*/false);
      if (!id.is_number_integer())
        fail_usage("standard input: holds '{}', wanted token ids", word);
      list.push_back(id);
    }
  }
  std::cout << tokenizer.decode(ids_of(list, "standard input"), flags.skip_special);
  if (!std::cout.flush()) fail("standard output: cannot be written");
  return 0;
}

int render(const TextFlags& flags) {
  const TextParts text = load_text(resolve_model(flags.model), flags.chat_template);
  const nlohmann::ordered_json request =
      parse_request_json(read_standard_input(), "standard input");
  if (!request.is_object()) fail_usage("standard input: is no JSON object, wanted one");
  if (!request.contains("messages"))
    fail_usage("standard input: field 'messages' is missing, wanted a list of messages");
  if (flags.ids) {
    print_line(
        fmt::format("{}", fmt::join(encode_chat(text, request, flags.model), " ")));
    return 0;
  }
  std::cout << render_chat(template_for(text, request, flags.model), request,
                           text.special_tokens);
  if (!std::cout.flush()) fail("standard output: cannot be written");
  return 0;
}

CLI::App* add_command(CLI::App& app, Action& action, const char* name, const char* help,
                      TextFlags& flags, int (*act)(const TextFlags&)) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("MODEL", flags.model, "model, or a directory with tokenizer.json")
      ->required();
  command->callback(
      [&action, &flags, act] { action = [&flags, act] { return act(flags); }; });
  return command;
}

}  // namespace

void add_text(CLI::App& app, Action& action) {
  static TextFlags flags;  // one command line a process
  CLI::App* encode =
      add_command(app, action, "tokenize", "text to token ids", flags, tokenize);
  encode->add_flag("--jsonl", flags.jsonl,
                   "a JSON string a line in, a JSON list a line out");
  encode->add_flag("--bos", flags.bos, "add what the tokenizer's post-processor adds");
  encode->add_flag("--no-special", flags.no_special,
                   "markers in the text are plain letters");
  CLI::App* decode =
      add_command(app, action, "detokenize", "token ids to text", flags, detokenize);
  decode->add_flag("--jsonl", flags.jsonl,
                   "a JSON list a line in, a JSON string a line out");
  decode->add_flag("--skip-special", flags.skip_special, "leave control tokens out");
  CLI::App* chat =
      add_command(app, action, "template", "a conversation as JSON to the prompt's text",
                  flags, render);
  chat->add_flag("--ids", flags.ids, "print what would be fed to the model");
  chat->add_option("--chat-template", flags.chat_template, "Jinja file to use instead");
}

}  // namespace ingot
