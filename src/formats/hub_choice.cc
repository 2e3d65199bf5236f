#include "formats/hub_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kIndex = ".safetensors.index.json";
constexpr size_t kMostListed = 12;

std::string base_name(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Whether `quant` stands in `text` as a word of its own: Q4_K does not stand in Q4_K_M.
// Both lower case.
bool has_word(std::string_view text, std::string_view quant) {
  for (size_t at = text.find(quant); at != std::string_view::npos;
       at = text.find(quant, at + 1)) {
    const size_t end = at + quant.size();
    const bool begins =
        at == 0 || !(is_letter_or_digit(text[at - 1]) || text[at - 1] == '_');
    const bool ends =
        end == text.size() || !(is_letter_or_digit(text[end]) || text[end] == '_');
    if (begins && ends) return true;
  }
  return false;
}

// A GGUF that is a model by itself, not a projector, a draft head or statistics.
bool is_gguf_model(std::string_view path) {
  const std::string file = lower_case(base_name(path));
  return file.ends_with(kGguf) && file.find("mmproj") == std::string::npos &&
         file.find("imatrix") == std::string::npos && !file.starts_with("mtp-");
}

// One GGUF model of the repository: a file, or all parts of a split one.
struct Candidate {
  std::string path;  // of its first part
  std::vector<HubFile> files;
};

std::vector<Candidate> gguf_candidates(const HubListing& listing) {
  std::vector<Candidate> candidates;
  for (const HubFile& file : listing.files) {
    if (!is_gguf_model(file.path)) continue;
    const SplitName split = parse_split_name(file.path, kGguf);
    if (split.part > 1) continue;
    Candidate candidate{file.path, {file}};
    for (int part = 2; part <= split.n_parts; ++part) {
      const std::string wanted = split_part_name(split, part, kGguf);
      const auto found = std::find_if(listing.files.begin(), listing.files.end(),
                                      [&](const HubFile& f) { return f.path == wanted; });
      if (found == listing.files.end())
        fail("{}: part {} of {} is missing, wanted {}", file.path, part, split.n_parts,
             wanted);
      candidate.files.push_back(*found);
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

std::string list_of(const std::vector<Candidate>& candidates) {
  std::string list;
  for (size_t i = 0; i < candidates.size() && i < kMostListed; ++i)
    list += (i == 0 ? "" : ", ") + printable_text(candidates[i].path);
  if (candidates.size() > kMostListed)
    list += fmt::format(" and {} more", candidates.size() - kMostListed);
  return list;
}

HubChoice choice_of(const Candidate& candidate) {
  HubChoice choice;
  choice.files = candidate.files;
  choice.first_gguf = base_name(candidate.path);
  choice.label = candidate.path;
  const SplitName split = parse_split_name(choice.first_gguf, kGguf);
  choice.default_name =
      split.n_parts > 0
          ? split.prefix
          : choice.first_gguf.substr(0, choice.first_gguf.size() - kGguf.size());
  return choice;
}

HubChoice choose_exact_file(const std::vector<Candidate>& candidates,
                            const HubReference& reference) {
  for (const Candidate& candidate : candidates)
    for (const HubFile& file : candidate.files)
      if (file.path == reference.selector) return choice_of(candidate);
  throw Error(fmt::format("{}: no model file '{}' in {}", reference.text(),
                          printable_text(reference.selector), reference.repo),
              candidates.empty() ? "" : "it has: " + list_of(candidates));
}

HubChoice choose_quant(const std::vector<Candidate>& candidates,
                       const HubReference& reference) {
  const std::string quant = lower_case(reference.selector);
  std::vector<Candidate> fits;
  for (const Candidate& candidate : candidates)
    if (has_word(lower_case(base_name(candidate.path)), quant)) fits.push_back(candidate);
  if (fits.empty())  // some repositories name only the folder so
    for (const Candidate& candidate : candidates)
      if (has_word(lower_case(candidate.path), quant)) fits.push_back(candidate);
  if (fits.size() == 1) return choice_of(fits.front());
  if (fits.empty())
    throw Error(
        fmt::format("{}: no GGUF file of quantisation '{}' in {}", reference.text(),
                    printable_text(reference.selector), reference.repo),
        candidates.empty() ? "" : "it has: " + list_of(candidates));
  throw Error(fmt::format("{}: '{}' fits {} files, wanted one: {}", reference.text(),
                          printable_text(reference.selector), fits.size(), list_of(fits)),
              fmt::format("name the file: hf:{}:{}", reference.repo, fits.front().path));
}

bool is_top_level(const HubFile& file) {
  return file.path.find('/') == std::string::npos;
}

// The directory of a safetensors model; nothing chosen when it has no such weights.
HubChoice choose_directory(const HubListing& listing, const HubReference& reference) {
  HubChoice choice;
  std::vector<HubFile> weights;
  for (const HubFile& file : listing.files) {
    if (!is_top_level(file)) continue;
    if (is_model_side_file(file.path)) choice.files.push_back(file);
    if (file.path.ends_with(kIndex) &&
        (choice.index.empty() || file.path == "model.safetensors.index.json"))
      choice.index = file.path;
    if (is_weights_file(file.path)) weights.push_back(file);
  }
  const auto whole = std::find_if(weights.begin(), weights.end(), [](const HubFile& f) {
    return f.path == "model.safetensors";
  });
  if (!choice.index.empty()) {
    for (const HubFile& file : listing.files)
      if (file.path == choice.index) choice.files.push_back(file);
  } else if (whole != weights.end()) {
    choice.files.push_back(*whole);
  } else {
    choice.files.insert(choice.files.end(), weights.begin(), weights.end());
  }
  if (choice.index.empty() && weights.empty()) choice.files.clear();
  choice.default_name = base_name(reference.repo);
  return choice;
}

[[noreturn]] void fail_no_model(const HubListing& listing,
                                const HubReference& reference) {
  for (const HubFile& file : listing.files) {
    if (file.path.ends_with(".bin") || file.path.ends_with(".pt") ||
        file.path.ends_with(".pth"))
      fail("{}: has only pickled weights ({}), wanted .safetensors or .gguf files",
           reference.text(), printable_text(file.path));
  }
  fail("{}: none of its {} files is a .safetensors or .gguf model", reference.text(),
       listing.files.size());
}

}  // namespace

bool is_model_side_file(std::string_view file_name) {
  constexpr std::array<std::string_view, 13> kNames = {"config.json",
                                                       "generation_config.json",
                                                       "tokenizer.json",
                                                       "tokenizer_config.json",
                                                       "tokenizer.model",
                                                       "vocab.json",
                                                       "merges.txt",
                                                       "special_tokens_map.json",
                                                       "added_tokens.json",
                                                       "chat_template.json",
                                                       "chat_template.jinja",
                                                       "recipe.json",
                                                       "preprocessor_config.json"};
  return std::find(kNames.begin(), kNames.end(), file_name) != kNames.end();
}

bool is_weights_file(std::string_view file_name) {
  return file_name.ends_with(kSafetensors) && !file_name.starts_with("adapter_model") &&
         !file_name.starts_with("consolidated") &&
         file_name.find(".fp16.") == std::string_view::npos &&
         file_name.find('/') == std::string_view::npos;
}

HubChoice choose_files(const HubListing& listing, const HubReference& reference) {
  const std::vector<Candidate> candidates = gguf_candidates(listing);
  if (!reference.selector.empty()) {
    const std::string lower = lower_case(reference.selector);
    const bool is_file =
        reference.selector.find('/') != std::string::npos || lower.ends_with(kGguf);
    if (!is_file && lower.ends_with(kSafetensors))
      fail_usage("{}: one safetensors file is no model, wanted hf:{} without ':'",
                 reference.text(), reference.repo);
    return is_file ? choose_exact_file(candidates, reference)
                   : choose_quant(candidates, reference);
  }
  HubChoice directory = choose_directory(listing, reference);
  if (!directory.files.empty()) return directory;
  if (candidates.size() == 1) return choice_of(candidates.front());
  if (candidates.empty()) fail_no_model(listing, reference);
  throw Error(
      fmt::format("{}: has {} GGUF models, wanted one: {}", reference.text(),
                  candidates.size(), list_of(candidates)),
      fmt::format("add a quantisation or a file, as hf:{}:Q4_K_M", reference.repo));
}

std::vector<HubFile> shards_of_index(const HubListing& listing,
                                     std::string_view index_json,
                                     std::string_view source) {
  const nlohmann::json index = nlohmann::json::parse(index_json, nullptr, false);
  if (!index.is_object()) fail("{}: no JSON object", source);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    fail("{}: weight_map is missing or no object", source);
  std::set<std::string> names;
  for (const auto& item : map->items()) {
    if (!item.value().is_string())
      fail("{}: weight_map entry '{}' is no string, wanted a file name", source,
           printable_text(item.key()));
    names.insert(item.value().get<std::string>());
  }
  if (names.empty()) fail("{}: weight_map is empty, wanted at least one tensor", source);
  std::vector<HubFile> shards;
  for (const std::string& name : names) {
    const auto found = std::find_if(listing.files.begin(), listing.files.end(),
                                    [&](const HubFile& f) { return f.path == name; });
    if (!name.ends_with(kSafetensors) || name.find('/') != std::string::npos)
      fail("{}: weight_map names '{}', wanted a bare .safetensors file name", source,
           printable_text(name));
    if (found == listing.files.end())
      fail("{}: names the shard '{}', which the repository lacks", source,
           printable_text(name));
    shards.push_back(*found);
  }
  return shards;
}

}  // namespace ingot
