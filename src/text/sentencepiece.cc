#include "text/sentencepiece.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe.h"

namespace ingot {
namespace {

// Protobuf's wire format: (field number, wire type) and a value, again and again.
class MessageReader {
 public:
  enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  MessageReader(std::string_view bytes, std::string_view source)
      : bytes_(bytes), source_(source) {}

  // Goes to the next field; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t tag = varint();
    field_ = tag >> 3;
    wire_ = Wire(int(tag & 7));
    if (field_ == 0 || field_ > (1u << 29) - 1) refuse("field number out of range");
    switch (wire_) {
      case Wire::varint:
        number_ = varint();
        break;
      case Wire::fixed64:
        number_ = fixed(8);
        break;
      case Wire::fixed32:
        number_ = fixed(4);
        break;
      case Wire::bytes: {
        const uint64_t length = varint();
        if (length > bytes_.size() - at_) refuse("a field longer than the file");
        data_ = bytes_.substr(at_, size_t(length));
        at_ += size_t(length);
        break;
      }
      default:
        refuse("an unknown wire type");
    }
    return true;
  }

  uint64_t field() const { return field_; }
  std::string_view data() const {
    want(Wire::bytes);
    return data_;
  }
  int64_t integer() const {
    want(Wire::varint);
    return int64_t(number_);
  }
  float real() const {
    want(Wire::fixed32);
    return std::bit_cast<float>(uint32_t(number_));
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail("{}: byte {}: {}, wanted a SentencePiece model", source_, at_, what);
  }
  void want(Wire wire) const {
    if (wire_ != wire) refuse("a field of the wrong type");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) refuse("the file ends inside a number");
      const auto byte = uint8_t(bytes_[at_++]);
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number of more than ten bytes");
  }
  uint64_t fixed(size_t n) {
    if (bytes_.size() - at_ < n) refuse("the file ends inside a number");
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, n);  // little-endian, as this machine
    at_ += n;
    return value;
  }

  std::string_view bytes_;
  std::string_view source_;
  size_t at_ = 0;
  uint64_t field_ = 0;
  Wire wire_ = Wire::varint;
  uint64_t number_ = 0;
  std::string_view data_;
};

int small_integer(const MessageReader& reader, std::string_view source) {
  const int64_t value = reader.integer();
  if (value < -1 || value > kMaxTokenId)
    fail("{}: field {}: {}, wanted an integer from -1 to {}", source, reader.field(),
         value, kMaxTokenId);
  return int(value);
}

SentencePieceModel::Piece parse_piece(std::string_view bytes, std::string_view source,
                                      size_t index) {
  SentencePieceModel::Piece piece;
  MessageReader reader(bytes, source);
  while (reader.next()) {
    if (reader.field() == 1) piece.text = reader.data();
    if (reader.field() == 2) piece.score = reader.real();
    if (reader.field() == 3) {
      const int64_t type = reader.integer();
      if (type < 1 || type > 6)
        fail("{}: piece {}: type {}, wanted 1 to 6", source, index, type);
      piece.type = PieceType(int(type));
    }
  }
  if (piece.text.empty() || !is_valid_utf8(piece.text))
    fail("{}: piece {}: \"{}\", wanted UTF-8 text, not empty", source, index,
         printable_text(piece.text));
  if (!std::isfinite(piece.score))
    fail("{}: piece {} (\"{}\"): its score is no finite number", source, index,
         printable_text(piece.text));
  return piece;
}

void parse_trainer(std::string_view bytes, std::string_view source,
                   SentencePieceModel& model) {
  MessageReader reader(bytes, source);
  while (reader.next()) {
    switch (reader.field()) {
      case 3:
        model.model_type = small_integer(reader, source);
        break;
      case 24:
        model.whitespace_as_suffix = reader.integer() != 0;
        break;
      case 35:
        model.byte_fallback = reader.integer() != 0;
        break;
      case 40:
        model.unk_id = small_integer(reader, source);
        break;
      case 41:
        model.bos_id = small_integer(reader, source);
        break;
      case 42:
        model.eos_id = small_integer(reader, source);
        break;
      case 43:
        model.pad_id = small_integer(reader, source);
        break;
      default:
        break;
    }
  }
}

void parse_normalizer(std::string_view bytes, std::string_view source,
                      SentencePieceModel& model) {
  MessageReader reader(bytes, source);
  while (reader.next()) {
    if (reader.field() == 2) model.has_charsmap = !reader.data().empty();
    if (reader.field() == 3) model.add_dummy_prefix = reader.integer() != 0;
    if (reader.field() == 4) model.remove_extra_whitespaces = reader.integer() != 0;
    if (reader.field() == 5) model.escape_whitespaces = reader.integer() != 0;
  }
}

void refuse_unsupported(const SentencePieceModel& model, std::string_view source) {
  constexpr std::string_view kKinds[] = {"unigram", "BPE", "word", "char"};
  if (model.model_type != 2) {
    const bool known = model.model_type >= 1 && model.model_type <= 4;
    fail("{}: trainer_spec.model_type: {}, wanted BPE, the only kind known here", source,
         known ? kKinds[model.model_type - 1] : "unknown");
  }
  if (model.has_charsmap)
    fail(
        "{}: normalizer_spec.precompiled_charsmap: letters are normalized by a table, "
        "wanted the identity, the only rule known here",
        source);
  if (model.whitespace_as_suffix)
    fail("{}: trainer_spec.treat_whitespace_as_suffix: true, wanted false", source);
  if (!model.escape_whitespaces)
    fail("{}: normalizer_spec.escape_whitespaces: false, wanted true", source);
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::string_view bytes, std::string_view source) {
  SentencePieceModel model;
  MessageReader reader(bytes, source);
  while (reader.next()) {
    if (reader.field() == 1) {
      if (model.pieces.size() > size_t(kMaxTokenId))
        fail("{}: more than {} pieces", source, kMaxTokenId + 1);
      model.pieces.push_back(parse_piece(reader.data(), source, model.pieces.size()));
    }
    if (reader.field() == 2) parse_trainer(reader.data(), source, model);
    if (reader.field() == 3) parse_normalizer(reader.data(), source, model);
  }
  if (model.pieces.empty()) fail("{}: no pieces, wanted a SentencePiece model", source);
  for (const int id : {model.unk_id, model.bos_id, model.eos_id, model.pad_id}) {
    if (id >= int(model.pieces.size()))
      fail("{}: trainer_spec: special id {}, wanted one below {}, the number of pieces",
           source, id, model.pieces.size());
  }
  return model;
}

TokenizerDefinition tokenizer_definition_from_sentencepiece(
    const SentencePieceModel& model, std::string_view source) {
  refuse_unsupported(model, source);
  TokenizerDefinition definition;
  definition.source = source;
  BpeDefinition& bpe = definition.model;
  std::vector<float> scores;
  std::vector<bool> mergeable;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model.pieces[i];
    static_cast<void>(bpe.vocabulary.add(piece.text, int(i)));  // every id is added once
    scores.push_back(piece.score);
    const bool control =
        piece.type == PieceType::control || piece.type == PieceType::unknown;
    mergeable.push_back(piece.type == PieceType::normal ||
                        piece.type == PieceType::user_defined);
    if (control || piece.type == PieceType::user_defined)
      definition.added_tokens.push_back(
          {.content = piece.text, .id = int(i), .special = control});
    if (piece.type == PieceType::unknown) bpe.unk_token = piece.text;
  }
  bpe.byte_fallback = model.byte_fallback;
  bpe.fuse_unk = true;
  merge_rules_by_score(bpe, scores, mergeable);

  if (model.remove_extra_whitespaces) {
    definition.normalizers.emplace_back(
        ReplaceStep{{.text = "\\A +|[ \u2581]+\\z", .is_regex = true}, ""});
    definition.normalizers.emplace_back(
        ReplaceStep{{.text = " +", .is_regex = true}, " "});
  }
  if (model.add_dummy_prefix) definition.normalizers.emplace_back(PrependStep{"\u2581"});
  definition.normalizers.push_back(replace_spaces());
  definition.has_decoder = true;
  definition.decoders = sentencepiece_decoders(model.add_dummy_prefix);

  const std::pair<const char*, int> named[] = {{"unk_token", model.unk_id},
                                               {"bos_token", model.bos_id},
                                               {"eos_token", model.eos_id},
                                               {"pad_token", model.pad_id}};
  for (const auto& [name, id] : named) {
    if (id >= 0) definition.special_token_texts[name] = model.pieces[size_t(id)].text;
  }
  if (model.bos_id >= 0) {
    definition.bos_id = model.bos_id;
    definition.prefix_ids = {model.bos_id};
  }
  if (model.eos_id >= 0) {
    definition.eos_id = model.eos_id;
    definition.end_of_generation_ids = {model.eos_id};
  }
  return definition;
}

}  // namespace ingot
