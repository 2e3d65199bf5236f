#include "app/load.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/threads.h"
#include "formats/store.h"
#include "model/derive.h"
#include "text/gguf_vocabulary.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTemplateBytes = 1 << 20;

std::string read_if_there(const fs::path& path, size_t max_bytes) {
  return fs::is_regular_file(path) ? read_file(path, max_bytes) : std::string();
}

TemplateSources directory_templates(const fs::path& directory,
                                    const std::string& config) {
  TemplateSources out;
  out.tokenizer_config_json = config;
  out.chat_template_jinja =
      read_if_there(directory / "chat_template.jinja", kMaxTemplateBytes);
  const fs::path more = directory / "additional_chat_templates";
  if (fs::is_directory(more)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(more)) {
      if (entry.path().extension() == ".jinja")
        out.named.emplace_back(entry.path().stem().string(),
                               read_file(entry.path(), kMaxTemplateBytes));
    }
    std::sort(out.named.begin(), out.named.end());
  }
  out.name_for_messages = printable(directory);
  return out;
}

TemplateSources gguf_templates(const Checkpoint& checkpoint) {
  TemplateSources out;
  constexpr std::string_view kKey = "tokenizer.chat_template";
  for (const auto& [key, value] : checkpoint.metadata) {
    const auto* text = std::get_if<std::string>(&value);
    if (!text || !key.starts_with(kKey)) continue;
    if (text->size() > kMaxTemplateBytes)
      fail("{}: key '{}' is {} bytes, wanted at most {}", printable(checkpoint.path), key,
           text->size(), kMaxTemplateBytes);
    if (key == kKey)
      out.gguf_template = *text;
    else if (key[kKey.size()] == '.')
      out.named.emplace_back(key.substr(kKey.size() + 1), *text);
  }
  out.name_for_messages = printable(checkpoint.path);
  return out;
}

void set_templates(TextParts& text, const TemplateSources& sources,
                   const std::string& template_file) {
  if (!template_file.empty()) {
    text.chat_template.emplace(read_file(template_file, kMaxTemplateBytes),
                               template_file);
    return;
  }
  const std::string name = sources.name_for_messages + ": chat template";
  const std::optional<std::string> plain = choose_template(sources, false);
  const std::optional<std::string> tools = choose_template(sources, true);
  if (plain) text.chat_template.emplace(*plain, name);
  if (tools && tools != plain) text.tool_template.emplace(*tools, name);
}

TextParts load_directory_text(const fs::path& directory,
                              const std::string& template_file) {
  TextParts text;
  const bool any = fs::exists(directory / "tokenizer.json") ||
                   fs::exists(directory / "tokenizer.model") ||
                   fs::exists(directory / "vocab.json");
  if (any) text.tokenizer.emplace(Tokenizer::from_directory(directory));
  const fs::path config = directory / "tokenizer_config.json";
  const std::string config_text = read_if_there(config, size_t(64) << 20);
  if (!config_text.empty())
    text.special_tokens = special_tokens_from_config(config_text, printable(config));
  set_templates(text, directory_templates(directory, config_text), template_file);
  return text;
}

TextParts load_gguf_text(const Checkpoint& checkpoint, const std::string& template_file) {
  TextParts text;
  if (checkpoint.metadata.contains("tokenizer.ggml.tokens"))
    text.tokenizer.emplace(Tokenizer::from_gguf(
        gguf_vocabulary(checkpoint.metadata, printable(checkpoint.path)),
        printable(checkpoint.path)));
  if (text.tokenizer) {
    for (const auto& [name, token] : text.tokenizer->special_token_texts())
      text.special_tokens.emplace_back(name, token);
  }
  set_templates(text, gguf_templates(checkpoint), template_file);
  return text;
}

}  // namespace

TextParts load_text(const Checkpoint& checkpoint, const std::string& template_file) {
  return checkpoint.container == Container::gguf
             ? load_gguf_text(checkpoint, template_file)
             : load_directory_text(checkpoint.path, template_file);
}

TextParts load_text(const fs::path& path, const std::string& template_file) {
  if (fs::is_directory(path)) return load_directory_text(path, template_file);
  return load_gguf_text(open_checkpoint(path), template_file);
}

std::unique_ptr<Ops> make_ops(const MachineFlags& flags) {
  if (flags.backend == "cuda" || flags.backend == "metal" || flags.backend == "sim")
    fail_usage("flag --backend {}: not built yet", flags.backend);
  if (flags.backend != "auto" && flags.backend != "cpu")
    fail_usage("flag --backend is '{}', wanted auto or cpu", flags.backend);
  if (flags.threads < 0 || flags.threads > 1024)
    fail_usage("flag --threads is {}, wanted 1 to 1024", flags.threads);
  CpuOptions options;
  options.n_threads = flags.threads == 0 ? default_thread_count() : flags.threads;
  options.act = act_mode(flags);
  return make_cpu_ops(options);
}

namespace {

// The weights, and beside them on a thread of its own the text side, which a large
// vocabulary makes as slow.  What is wrong with the text is told as soon as it is known,
// and before what is wrong with the weights.
void load_weights_and_text(LoadedModel& loaded, Recipe recipe,
                           const MachineFlags& flags) {
  std::future<TextParts> text = std::async(std::launch::async, [&] {
    return load_text(loaded.checkpoint, flags.chat_template);
  });
  std::optional<Progress> bar;
  ModelLoad options;
  options.context =
      flags.context != 0 ? flags.context : default_context(recipe, kv_type(flags));
  options.progress = [&](uint64_t done, uint64_t total) {
    if (!bar) bar.emplace("loading", total, ProgressUnit::bytes);
    bar->update(done);
    const bool is_known = text.valid() && text.wait_for(std::chrono::seconds(0)) ==
                                              std::future_status::ready;
    if (is_known) loaded.text = text.get();
  };
  try {
    loaded.model = load_model(loaded.checkpoint, std::move(recipe), *loaded.ops, options);
  } catch (const Error& error) {
    bar.reset();
    if (text.valid() && error.kind() != ErrorKind::interrupted) text.get();
    throw;
  }
  bar.reset();
  if (text.valid()) loaded.text = text.get();
}

}  // namespace

std::unique_ptr<LoadedModel> load_everything(const MachineFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  kv_type(flags);  // a wrong flag is told before a long load
  auto loaded = std::make_unique<LoadedModel>();
  loaded->ops = make_ops(flags);
  loaded->checkpoint = open_checkpoint(resolve_model(flags.model));
  Recipe recipe = derive_recipe(loaded->checkpoint);
  loaded->generation = read_generation_config(loaded->checkpoint);
  load_weights_and_text(*loaded, std::move(recipe), flags);
  loaded->stop_ids = loaded->generation.eos_ids;
  if (loaded->stop_ids.empty() && loaded->text.tokenizer)
    loaded->stop_ids = loaded->text.tokenizer->end_of_generation_ids();
  loaded->load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  log_info("{}: {} in {:.2f} s, {:.1f} MB of weights", flags.model,
           loaded->model->recipe.family, loaded->load_seconds,
           double(loaded->model->weight_bytes) / 1e6);
  return loaded;
}

const ChatTemplate& template_for(const TextParts& text,
                                 const nlohmann::ordered_json& request,
                                 const std::string& model_name) {
  if (!text.chat_template)
    fail("{}: has no chat template, wanted one (or --raw)", model_name);
  const bool tools = request.contains("tools") && !request["tools"].empty();
  return tools && text.tool_template ? *text.tool_template : *text.chat_template;
}

std::vector<int> encode_chat(const TextParts& text, const nlohmann::ordered_json& request,
                             const std::string& model_name) {
  if (!text.tokenizer)
    fail("{}: has no tokenizer, wanted one to encode a prompt", model_name);
  const GuardedPrompt prompt = render_chat_guarded(
      template_for(text, request, model_name), request, text.special_tokens);
  std::string rendered;
  std::vector<TextRange> plain;
  for (const PromptSegment& segment : prompt.segments) {
    if (segment.from_request)
      plain.push_back({rendered.size(), rendered.size() + segment.text.size()});
    rendered += segment.text;
  }
  const Tokenizer& tokenizer = *text.tokenizer;
  std::vector<int> ids = tokenizer.encode(rendered, {.plain = plain});
  // One begin-of-text: the template's own, else the tokenizer's.
  if (tokenizer.adds_bos() && tokenizer.bos_id() &&
      (ids.empty() || ids.front() != *tokenizer.bos_id()))
    ids.insert(ids.begin(), *tokenizer.bos_id());
  return ids;
}

}  // namespace ingot
