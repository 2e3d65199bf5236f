// tokenizer.model from strangers: load it, and if that works, run it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/sentencepiece.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const ingot::SentencePieceModel model = ingot::parse_sentencepiece(bytes, "fuzz");
    const ingot::Tokenizer tokenizer(
        ingot::tokenizer_definition_from_sentencepiece(model, "fuzz"));
    const auto ids =
        tokenizer.encode("ab  a<s> \u4e2d\u2581 \xff", {.add_special = true});
    CHECK(ingot::is_valid_utf8(tokenizer.decode(ids, false)));
  } catch (const ingot::Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
