// tokenizer.json from strangers: load it, and if that works, run it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace {

void use(const ingot::Tokenizer& tokenizer) {
  const std::string_view text =
      "a<s> b\xff"
      "c  1234 \u2581\u00e9\u4e2d\n\n''s AB</s>";
  const ingot::TextRange plain[] = {{2, 5}};
  std::vector<int> ids = tokenizer.encode(text, {.add_special = true, .plain = plain});
  ids.push_back(-1);
  ids.push_back(tokenizer.vocab_size());
  for (int id = 0; id < tokenizer.vocab_size() && id < 64; ++id) ids.push_back(id);
  for (const bool skip : {false, true}) {
    const std::string whole = tokenizer.decode(ids, skip);
    CHECK(ingot::is_valid_utf8(whole));
    ingot::StreamDetokenizer stream(tokenizer, skip);
    std::string joined;
    for (const int id : ids) joined += stream.push(id);
    CHECK(joined + stream.finish() == whole);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    use(ingot::Tokenizer::from_json(json, "fuzz"));
  } catch (const ingot::Error& error) {
    CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
