#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "text/json_fields.h"
#include "text/merges.h"
#include "text/tokenizer.h"

namespace ingot {
namespace {

constexpr int kMaxDepth = 32;  // of Sequences in Sequences

Pattern read_pattern(const JsonField& step) {
  const JsonField pattern = step.at("pattern");
  if (pattern.has("Regex"))
    return {.text = std::string(pattern.at("Regex").string()), .is_regex = true};
  return {.text = std::string(pattern.at("String").string()), .is_regex = false};
}

SplitBehavior read_behavior(const JsonField& step, std::string_view otherwise) {
  const std::string name = step.text("behavior", otherwise);
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  fail(
      "{}.behavior: \"{}\", wanted Isolated, Removed, MergedWithPrevious, MergedWithNext "
      "or Contiguous",
      step.place(), printable_text(name));
}

PrependScheme read_prepend_scheme(const JsonField& step) {
  if (!step.flag("add_prefix_space", true)) return PrependScheme::never;  // older files
  const std::string name = step.text("prepend_scheme", "always");
  if (name == "always") return PrependScheme::always;
  if (name == "first") return PrependScheme::first;
  if (name == "never") return PrependScheme::never;
  fail("{}.prepend_scheme: \"{}\", wanted always, first or never", step.place(),
       printable_text(name));
}

// Calls read(step) for every step in `field`, through Sequences.  `list` is the key of a
// Sequence's steps.
template <typename Read>
void each_step(const JsonField& field, std::string_view list, int depth,
               const Read& read) {
  if (field.element().is_null()) return;
  if (depth > kMaxDepth)
    fail("{}: Sequences nested more than {} deep", field.place(), kMaxDepth);
  if (field.at("type").string() != "Sequence") return read(field);
  const JsonField steps = field.at(list);
  size_t i = 0;
  for (const simdjson::dom::element step : steps.array())
    each_step(steps.item(i++, step), list, depth + 1, read);
}

[[noreturn]] void refuse_step(const JsonField& step, std::string_view known) {
  fail("{}.type: \"{}\" is not known, wanted one of {}", step.place(),
       printable_text(step.at("type").string()), known);
}

NormalizerStep read_normalizer(const JsonField& step) {
  const std::string_view type = step.at("type").string();
  if (type == "NFC") return UnicodeFormStep{NormalForm::nfc};
  if (type == "NFD") return UnicodeFormStep{NormalForm::nfd};
  if (type == "NFKC") return UnicodeFormStep{NormalForm::nfkc};
  if (type == "NFKD") return UnicodeFormStep{NormalForm::nfkd};
  if (type == "Replace")
    return ReplaceStep{read_pattern(step), std::string(step.at("content").string())};
  if (type == "Prepend") return PrependStep{std::string(step.at("prepend").string())};
  if (type == "Strip")
    return StripStep{step.flag("strip_left", true), step.flag("strip_right", true)};
  if (type == "Lowercase") return LowercaseStep{};
  if (type == "StripAccents") return StripAccentsStep{};
  if (type == "ByteLevel") return ByteLettersStep{};
  refuse_step(step,
              "NFC, NFD, NFKC, NFKD, Replace, Prepend, Strip, Lowercase, StripAccents, "
              "ByteLevel, Sequence");
}

void read_pre_tokenizer(const JsonField& step, std::vector<PreTokenizerStep>& steps) {
  const std::string_view type = step.at("type").string();
  if (type == "Split") {
    steps.emplace_back(SplitStep{read_pattern(step), read_behavior(step, "Isolated"),
                                 step.flag("invert", false)});
  } else if (type == "ByteLevel") {
    steps.emplace_back(
        ByteLevelStep{step.flag("add_prefix_space", true), step.flag("use_regex", true)});
  } else if (type == "Metaspace") {
    steps.emplace_back(
        MetaspaceStep{step.has("replacement") ? step.at("replacement").letter() : 0x2581,
                      read_prepend_scheme(step), step.flag("split", true)});
  } else if (type == "Digits") {
    const bool alone = step.flag("individual_digits", false);
    steps.emplace_back(LetterSplitStep{
        LetterKind::digit, alone ? SplitBehavior::isolated : SplitBehavior::contiguous});
  } else if (type == "Punctuation") {
    steps.emplace_back(
        LetterSplitStep{LetterKind::punctuation, read_behavior(step, "Isolated")});
  } else if (type == "Whitespace") {
    steps.emplace_back(WordSplitStep{});
  } else if (type == "WhitespaceSplit") {
    steps.emplace_back(LetterSplitStep{LetterKind::space, SplitBehavior::removed});
  } else if (type == "BertPreTokenizer") {
    steps.emplace_back(LetterSplitStep{LetterKind::space, SplitBehavior::removed});
    steps.emplace_back(
        LetterSplitStep{LetterKind::bert_punctuation, SplitBehavior::isolated});
  } else if (type == "CharDelimiterSplit") {
    steps.emplace_back(LetterSplitStep{LetterKind::delimiter, SplitBehavior::removed,
                                       step.at("delimiter").letter()});
  } else if (type == "FixedLength") {
    steps.emplace_back(FixedLengthStep{
        size_t(step.has("length") ? step.at("length").integer(1, 1 << 30) : 5)});
  } else {
    refuse_step(
        step,
        "Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, "
        "WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit, FixedLength, Sequence");
  }
}

DecoderStep read_decoder(const JsonField& step) {
  const std::string_view type = step.at("type").string();
  if (type == "ByteLevel") return ByteLevelDecoder{};
  if (type == "Replace")
    return ReplaceDecoder{read_pattern(step), std::string(step.at("content").string())};
  if (type == "ByteFallback") return ByteFallbackDecoder{};
  if (type == "Fuse") return FuseDecoder{};
  if (type == "Strip")
    return StripDecoder{step.at("content").letter(), step.count("start", 0),
                        step.count("stop", 0)};
  if (type == "Metaspace")
    return MetaspaceDecoder{
        step.has("replacement") ? step.at("replacement").letter() : char32_t(0x2581),
        read_prepend_scheme(step)};
  refuse_step(step, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, Sequence");
}

int read_id(const JsonField& field) { return int(field.integer(0, kMaxTokenId)); }

void append_special(const JsonField& template_step, const JsonField& special_tokens,
                    std::vector<int>& ids) {
  const std::string_view name = template_step.at("id").string();
  const JsonField token = special_tokens.at(name);
  const JsonField list = token.at("ids");
  size_t i = 0;
  for (const simdjson::dom::element id : list.array())
    ids.push_back(read_id(list.item(i++, id)));
}

// TemplateProcessing of a single text: what comes before the text, and what after.
void read_template(const JsonField& step, TokenizerDefinition& definition) {
  const JsonField single = step.at("single");
  std::vector<int> before;
  std::vector<int> after;
  bool text_seen = false;
  size_t i = 0;
  for (const simdjson::dom::element element : single.array()) {
    const JsonField part = single.item(i++, element);
    if (part.has("SpecialToken")) {
      append_special(part.at("SpecialToken"), step.at("special_tokens"),
                     text_seen ? after : before);
    } else if (part.at("Sequence").at("id").string() != "A" || text_seen) {
      fail("{}: wanted the text \"A\", once", part.place());
    } else {
      text_seen = true;
    }
  }
  if (!text_seen) fail("{}: no text in it, wanted \"A\"", single.place());
  // A later processor wraps what an earlier one made.
  definition.prefix_ids.insert(definition.prefix_ids.begin(), before.begin(),
                               before.end());
  definition.suffix_ids.insert(definition.suffix_ids.end(), after.begin(), after.end());
}

void read_post_processor(const JsonField& step, TokenizerDefinition& definition) {
  const std::string_view type = step.at("type").string();
  if (type == "ByteLevel") return;  // offsets only
  if (type == "TemplateProcessing") return read_template(step, definition);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto id_of = [&](std::string_view key) {
      const JsonField pair = step.at(key);
      simdjson::dom::element id;
      if (pair.array().at(1).get(id) != simdjson::SUCCESS)
        fail("{}: wanted [token, id]", pair.place());
      return read_id(pair.item(1, id));
    };
    definition.prefix_ids.insert(definition.prefix_ids.begin(), id_of("cls"));
    definition.suffix_ids.push_back(id_of("sep"));
    return;
  }
  refuse_step(
      step, "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, Sequence");
}

void read_merges(const JsonField& merges, BpeDefinition& model) {
  const simdjson::dom::array list = merges.array();
  MergeReader reader(model, merges.place());
  size_t i = 0;
  for (const simdjson::dom::element merge : list) {
    std::string_view line;
    simdjson::dom::array pair;
    if (merge.get(line) == simdjson::SUCCESS) {
      reader.add_line(line, i);
    } else if (merge.get(pair) == simdjson::SUCCESS && pair.size() == 2) {
      const JsonField field = merges.item(i, merge);
      reader.add(field.item(0, pair.at(0)).string(), field.item(1, pair.at(1)).string(),
                 i);
    } else {
      fail("{}[{}]: wanted \"a b\" or [\"a\", \"b\"]", merges.place(), i);
    }
    ++i;
  }
}

void read_vocabulary(const JsonField& vocab, Vocabulary& vocabulary) {
  const simdjson::dom::object tokens = vocab.object();
  size_t n_bytes = 0;
  for (const auto& [text, id] : tokens) n_bytes += text.size();
  vocabulary.reserve(tokens.size(), n_bytes);
  for (const auto& [text, id] : tokens) {
    int64_t value = -1;
    if (id.get(value) != simdjson::SUCCESS || value < 0 || value > kMaxTokenId)
      fail("{}: \"{}\" has no id from 0 to {}", vocab.place(), printable_text(text),
           kMaxTokenId);
    if (!vocabulary.add(text, int(value)))
      fail("{}: \"{}\" has id {}, which \"{}\" has already", vocab.place(),
           printable_text(text), value, printable_text(*vocabulary.text(int(value))));
  }
}

void read_model(const JsonField& model, BpeDefinition& bpe) {
  const std::string type =
      model.text("type", model.has("merges") ? std::string_view("BPE") : "none");
  if (type != "BPE")
    fail("{}.type: \"{}\", wanted BPE, the only kind of model known here", model.place(),
         printable_text(type));
  if (model.has("dropout")) {
    double dropout = 0;
    if (model.at("dropout").element().get(dropout) != simdjson::SUCCESS ||
        std::fpclassify(dropout) != FP_ZERO)
      fail("{}.dropout: not zero, wanted none: ids would be random", model.place());
  }
  bpe.unk_token = model.text("unk_token", "");
  bpe.continuing_subword_prefix = model.text("continuing_subword_prefix", "");
  bpe.end_of_word_suffix = model.text("end_of_word_suffix", "");
  bpe.fuse_unk = model.flag("fuse_unk", false);
  bpe.byte_fallback = model.flag("byte_fallback", false);
  bpe.ignore_merges = model.flag("ignore_merges", false);
  read_vocabulary(model.at("vocab"), bpe.vocabulary);
  read_merges(model.at("merges"), bpe);
}

void read_added_tokens(const JsonField& list, TokenizerDefinition& definition) {
  size_t i = 0;
  for (const simdjson::dom::element element : list.array()) {
    const JsonField field = list.item(i++, element);
    AddedToken token;
    token.content = field.at("content").string();
    token.id = read_id(field.at("id"));
    token.single_word = field.flag("single_word", false);
    token.lstrip = field.flag("lstrip", false);
    token.rstrip = field.flag("rstrip", false);
    token.special = field.flag("special", false);
    token.normalized = field.flag("normalized", !token.special);
    // Where the vocabulary has the text, its id holds, as in the reference.
    if (const auto id = definition.model.vocabulary.find(token.content)) token.id = *id;
    definition.added_tokens.push_back(std::move(token));
  }
}

}  // namespace

TokenizerDefinition tokenizer_definition_from_json(std::string_view json,
                                                   std::string_view source) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  if (const auto error = parser.parse(json.data(), json.size()).get(document))
    fail("{}: not JSON: {}", source, simdjson::error_message(error));
  const JsonField root(document, fmt::format("{}:", source));

  TokenizerDefinition definition;
  definition.source = source;
  read_model(root.at("model"), definition.model);
  if (root.has("added_tokens")) read_added_tokens(root.at("added_tokens"), definition);
  if (root.has("normalizer")) {
    each_step(root.at("normalizer"), "normalizers", 0, [&](const JsonField& step) {
      definition.normalizers.push_back(read_normalizer(step));
    });
  }
  if (root.has("pre_tokenizer")) {
    each_step(root.at("pre_tokenizer"), "pretokenizers", 0, [&](const JsonField& step) {
      read_pre_tokenizer(step, definition.pre_tokenizers);
    });
  }
  if (root.has("post_processor")) {
    each_step(root.at("post_processor"), "processors", 0,
              [&](const JsonField& step) { read_post_processor(step, definition); });
  }
  if (root.has("decoder")) {
    definition.has_decoder = true;
    each_step(root.at("decoder"), "decoders", 0, [&](const JsonField& step) {
      definition.decoders.push_back(read_decoder(step));
    });
  }
  if (!definition.prefix_ids.empty()) definition.bos_id = definition.prefix_ids.front();
  return definition;
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view source) {
  return Tokenizer(tokenizer_definition_from_json(tokenizer_json, source));
}

}  // namespace ingot
