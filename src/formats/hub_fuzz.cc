// libFuzzer target: what a user types as a reference and what a hub sends.  The first
// byte chooses the parser; the rest is its input.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "formats/hub_choice.h"
#include "formats/hub_download.h"
#include "formats/hub_listing.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

const HubSubject kSubject{{"org/model", "main", {}}, {}};

// HB-2, said in another way than the parser does.
void check_inside(const HubFile& file) {
  const std::filesystem::path root = "/base/model";
  const std::filesystem::path full = (root / file.path).lexically_normal();
  CHECK(full.native().starts_with("/base/model/"));
  CHECK(full == root / file.path);
  CHECK(file.sha256.empty() || file.sha256.size() == 64);
  CHECK(file.git_sha1.empty() || file.git_sha1.size() == 40);
}

void choose(const HubListing& listing) {
  for (const HubFile& file : listing.files) check_inside(file);
  for (const char* reference :
       {"hf:org/model", "hf:org/model:q4_k", "hf:org/model:a.gguf"}) {
    try {
      const HubChoice choice = choose_files(listing, parse_hub_reference(reference));
      CHECK(!choice.files.empty());
      CHECK(choice.first_gguf.find('/') == std::string::npos);
    } catch (const Error&) {
    }
  }
}

void read_reference(std::string_view text) {
  const HubReference reference = parse_hub_reference(text);
  const HubReference again = parse_hub_reference(reference.text());
  CHECK(again.repo == reference.repo && again.revision == reference.revision &&
        again.selector == reference.selector);
  CHECK(reference.repo.find("..") == std::string::npos);
}

void read_header(std::string_view text) {
  if (const std::optional<ContentRange> range = parse_content_range(text)) {
    CHECK(!range->first || *range->first <= *range->last);
    CHECK(!range->first || !range->total || *range->last < *range->total);
  }
  CHECK(bare_etag(text, EtagKind::any).size() <= text.size());
  CHECK(hex_unescape(hex_escape(text)) == text);
  const HttpHeaders headers = {{"link", std::string(text)},
                               {"retry-after", std::string(text)},
                               {"ratelimit", std::string(text)}};
  CHECK(next_page(headers).size() <= text.size());
  CHECK(retry_after_s(headers).value_or(0) >= 0);
  const SplitName split = parse_split_name(text, ".gguf");
  CHECK(split.n_parts == 0 || split_part_name(split, split.part, ".gguf") == text);
}

void read(char kind, std::string_view text) {
  HubListing listing;
  bool has_files = false;
  switch (kind) {
    case 'i':
      choose(parse_model_info(text, kSubject, &has_files));
      break;
    case 't':
      add_tree_page(listing, text, kSubject);
      choose(listing);
      break;
    case 'x':
      listing.files.resize(1);
      listing.files[0].path = "model-00001-of-00001.safetensors";
      CHECK(shards_of_index(listing, text, "index").size() == 1);
      break;
    case 'r':
      read_reference(text);
      break;
    default:
      read_header(text);
  }
}

}  // namespace
}  // namespace ingot

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    ingot::read(text[0], text.substr(1));
  } catch (const ingot::Error&) {
  }
  return 0;
}
