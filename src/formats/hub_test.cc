// References, choice of files, and the small parsers of what a hub sends.  The whole pull
// is tested against a server in tests/test_hub.py.
#include "formats/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "formats/http.h"
#include "formats/hub_choice.h"
#include "formats/hub_client.h"
#include "formats/hub_download.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HubReferenceTest, Parts) {
  const HubReference plain = parse_hub_reference("hf:Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain.repo, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.selector, "");
  EXPECT_EQ(plain.text(), "hf:Qwen/Qwen3-0.6B");
  const HubReference full = parse_hub_reference("hf:a/b@refs/pr/1:Q4/m-Q4_K.gguf");
  EXPECT_EQ(full.repo, "a/b");
  EXPECT_EQ(full.revision, "refs/pr/1");
  EXPECT_EQ(full.selector, "Q4/m-Q4_K.gguf");
  EXPECT_EQ(full.text(), "hf:a/b@refs/pr/1:Q4/m-Q4_K.gguf");
  EXPECT_EQ(parse_hub_reference("hf:gpt2@main").text(), "hf:gpt2");
  // The selector is everything after the first colon.
  EXPECT_EQ(parse_hub_reference("hf:a/b:m@1.gguf").selector, "m@1.gguf");
}

TEST(HubReferenceTest, Refused) {
  for (const char* bad :
       {"",          "a/b",         "HF:a/b",      "hf:",         "hf:/b",
        "hf:a/",     "hf:a/b/c",    "hf:a/..",     "hf:.a/b",     "hf:a/b-",
        "hf:a--b/c", "hf:a/b.git",  "hf:a b/c",    "hf:a/b@",     "hf:a/b:",
        "hf:a/b@/x", "hf:a/b:../x", "hf:a/b:x\\y", "hf:a/b:x\ny", "hf:\xc3\xa9/b"})
    EXPECT_NE(error_of([&] { parse_hub_reference(bad); }), "no error") << bad;
  EXPECT_EQ(parse_hub_reference("hf:" + std::string(48, 'a') + "/" + std::string(47, 'b'))
                .repo.size(),
            96U);
  EXPECT_THAT(
      error_of([] {
        parse_hub_reference("hf:" + std::string(48, 'a') + "/" + std::string(48, 'b'));
      }),
      HasSubstr("97 bytes, wanted at most 96"));
}

TEST(HttpTest, Origins) {
  EXPECT_EQ(url_origin("https://Hub.Example/a?b#c"), "https://hub.example");
  EXPECT_EQ(url_origin("https://hub.example:443/a"), "https://hub.example");
  EXPECT_EQ(url_origin("https://hub.example:8443/a"), "https://hub.example:8443");
  EXPECT_EQ(url_origin("http://hub.example/"), "http://hub.example");
  EXPECT_EQ(url_origin("https://hub.example@evil.example/"), "https://evil.example");
  for (const char* bad : {"", "/a", "hub", "ftp://h/", "file:///etc/passwd", "https://"})
    EXPECT_EQ(url_origin(bad), "") << bad;
  EXPECT_TRUE(is_loopback_origin("http://localhost"));
  EXPECT_TRUE(is_loopback_origin("http://127.0.0.1:80"));
  EXPECT_TRUE(is_loopback_origin("https://[::1]:1"));
  EXPECT_FALSE(is_loopback_origin("http://localhost.evil.example"));
  EXPECT_FALSE(is_loopback_origin("http://127.0.0.1.evil.example"));
  EXPECT_FALSE(is_loopback_origin("http://example"));
}

TEST(HttpTest, PercentEncoding) {  // RFC 3986, 2.1 and 2.3
  EXPECT_EQ(percent_encode("a b/c~%#?\xc3\xa9", Slashes::keep),
            "a%20b/c~%25%23%3F%C3%A9");
  EXPECT_EQ(percent_encode("refs/pr/1", Slashes::encode), "refs%2Fpr%2F1");
}

TEST(HttpTest, RetryAfter) {
  EXPECT_EQ(retry_after_s({{"retry-after", "7"}}), 7.0);
  EXPECT_EQ(retry_after_s({{"retry-after", "Fri, 31 Dec 1999 23:59:59 GMT"}}), 0.0);
  EXPECT_GT(retry_after_s({{"retry-after", "Fri, 31 Dec 2100 23:59:59 GMT"}}).value(),
            1e9);
  EXPECT_EQ(retry_after_s({{"ratelimit", "\"api\";r=0;t=55"}}), 55.0);
  EXPECT_FALSE(retry_after_s({{"ratelimit", "\"api\";r=3;t=55"}}));
  EXPECT_FALSE(retry_after_s({{"retry-after", "soon"}}));
  EXPECT_FALSE(retry_after_s({{"retry-after", ""}}));
  EXPECT_FALSE(retry_after_s({}));
}

TEST(HttpTest, ContentRange) {  // RFC 9110, 14.4
  const std::optional<ContentRange> range = parse_content_range("bytes 5-9/10");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5U);
  EXPECT_EQ(range->last, 9U);
  EXPECT_EQ(range->total, 10U);
  EXPECT_EQ(parse_content_range("bytes */10")->total, 10U);
  EXPECT_FALSE(parse_content_range("bytes */10")->first);
  EXPECT_FALSE(parse_content_range("bytes 5-9/*")->total);
  for (const char* bad :
       {"", "bytes", "bytes ", "bytes 5-9", "bytes 9-5/10", "bytes 5-10/10",
        "bytes -5-9/10", "bytes 5-/10", "bytes */*", "items 5-9/10", "bytes 5-9/x",
        "bytes 5 -9/10", "bytes 0-18446744073709551616/18446744073709551617"})
    EXPECT_FALSE(parse_content_range(bad)) << bad;
}

TEST(HttpTest, Etags) {
  EXPECT_EQ(bare_etag("\"abc\"", EtagKind::any), "abc");
  EXPECT_EQ(bare_etag("W/\"abc\"", EtagKind::any), "abc");
  EXPECT_EQ(bare_etag("W/\"abc\"", EtagKind::strong_only), "");
  EXPECT_EQ(bare_etag("abc", EtagKind::any), "abc");
  EXPECT_EQ(bare_etag("\"", EtagKind::any), "\"");
}

TEST(HubDownloadTest, GitHash) {
  // `git hash-object` of these bytes, and git's well-known empty blob.
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "git_hash_test";
  std::ofstream(path) << "content\n";
  EXPECT_EQ(git_sha1_file(path), "d95f3ad14dee633a758d2e331151e950dd13e4ed");
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_EQ(git_sha1_file(path), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  std::filesystem::remove(path);
}

HubListing listing_of(std::initializer_list<const char*> paths) {
  HubListing listing;
  for (const char* path : paths) {
    HubFile file;
    file.path = path;
    listing.files.push_back(file);
  }
  return listing;
}

std::string chosen(const HubListing& listing, std::string_view reference) {
  std::string text;
  for (const HubFile& file : choose_files(listing, parse_hub_reference(reference)).files)
    text += (text.empty() ? "" : " ") + file.path;
  return text;
}

TEST(HubChoiceTest, GgufByQuantisation) {
  const HubListing listing = listing_of(
      {"m-Q4_K_M.gguf", "m-q4_k.gguf", "m.IQ4_XS.gguf", "Q8_0/m-00001-of-00002.gguf",
       "Q8_0/m-00002-of-00002.gguf", "mmproj-m-F16.gguf", "m-F16.gguf"});
  EXPECT_EQ(chosen(listing, "hf:a/b:q4_k_m"), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(listing, "hf:a/b:Q4_K"), "m-q4_k.gguf");
  EXPECT_EQ(chosen(listing, "hf:a/b:iq4_xs"), "m.IQ4_XS.gguf");
  EXPECT_EQ(chosen(listing, "hf:a/b:F16"), "m-F16.gguf");
  EXPECT_EQ(chosen(listing, "hf:a/b:Q8_0"),
            "Q8_0/m-00001-of-00002.gguf Q8_0/m-00002-of-00002.gguf");
  // Any part names the whole.
  EXPECT_EQ(chosen(listing, "hf:a/b:Q8_0/m-00002-of-00002.gguf"),
            "Q8_0/m-00001-of-00002.gguf Q8_0/m-00002-of-00002.gguf");
  EXPECT_THAT(error_of([&] { chosen(listing, "hf:a/b:Q4"); }), HasSubstr("'Q4'"));
  EXPECT_THAT(error_of([&] { chosen(listing, "hf:a/b:M-F16.gguf"); }),
              HasSubstr("no model file 'M-F16.gguf'"));
}

TEST(HubChoiceTest, SafetensorsDirectory) {
  EXPECT_EQ(chosen(listing_of({"config.json", "model.safetensors",
                               "model.fp16.safetensors", "pytorch_model.bin",
                               "tokenizer.json", "sub/config.json", "m-Q4_0.gguf"}),
                   "hf:a/b"),
            "config.json tokenizer.json model.safetensors");
  // An index goes before a whole file (ST-38).
  EXPECT_EQ(
      chosen(listing_of({"model.safetensors", "model.safetensors.index.json"}), "hf:a/b"),
      "model.safetensors.index.json");
  EXPECT_EQ(chosen(listing_of({"weights.safetensors", "config.json"}), "hf:a/b"),
            "config.json weights.safetensors");
  EXPECT_EQ(chosen(listing_of({"config.json", "m-Q4_0.gguf"}), "hf:a/b"), "m-Q4_0.gguf");
  EXPECT_THAT(error_of([] { chosen(listing_of({"README.md"}), "hf:a/b"); }),
              HasSubstr("none of its 1 files"));
}

TEST(HubChoiceTest, ShardsOfAnIndex) {
  const HubListing listing =
      listing_of({"b.safetensors", "a.safetensors", "c.safetensors"});
  const std::vector<HubFile> shards = shards_of_index(
      listing, R"({"weight_map": {"x": "b.safetensors", "y": "a.safetensors"}})",
      "index");
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].path, "a.safetensors");
  EXPECT_EQ(shards[1].path, "b.safetensors");
  for (const char* bad :
       {"", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
        R"({"weight_map": {"x": 1}})", R"({"weight_map": {"x": "d.safetensors"}})",
        R"({"weight_map": {"x": "../a.safetensors"}})",
        R"({"weight_map": {"x": "a.bin"}})"})
    EXPECT_THAT(error_of([&] { shards_of_index(listing, bad, "index"); }),
                HasSubstr("index: "))
        << bad;
}

TEST(HubTextTest, SplitNames) {
  const SplitName name = parse_split_name("a/m-00002-of-00010.gguf", ".gguf");
  EXPECT_EQ(name.prefix, "a/m");
  EXPECT_EQ(name.part, 2);
  EXPECT_EQ(name.n_parts, 10);
  EXPECT_EQ(split_part_name(name, 10, ".gguf"), "a/m-00010-of-00010.gguf");
  for (const char* other : {"m.gguf", "m-00002-of-00001.gguf", "m-00000-of-00001.gguf",
                            "m-0001-of-00002.gguf", "-00001-of-00001.gguf",
                            "m-00001-of-00002.bin", "m-0000x-of-00002.gguf", ""})
    EXPECT_EQ(parse_split_name(other, ".gguf").n_parts, 0) << other;
}

TEST(HubTextTest, HexEscapeKeepsAnyBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += char(i);
  EXPECT_EQ(hex_unescape(hex_escape(all)), all);
  for (const char c : hex_escape(all)) EXPECT_TRUE(c >= ' ' && c < 0x7F);
  EXPECT_EQ(hex_unescape("100%"), "100%");
  EXPECT_EQ(hex_unescape("%4"), "%4");
}

TEST(HubTextTest, NearNames) {
  const std::vector<std::string> names = {"qwen2.5-coder-0.5b", "smollm2", "gemma3-270m"};
  EXPECT_EQ(near_names_hint("smolm2", names), "did you mean 'smollm2'?");
  EXPECT_EQ(near_names_hint("QWEN2.5", names), "did you mean 'qwen2.5-coder-0.5b'?");
  EXPECT_EQ(near_names_hint("mistral-7b", names), "");
  EXPECT_EQ(near_names_hint("", names), "");
}

TEST(HubTextTest, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(98'000'000), "98.0 MB");
  EXPECT_EQ(human_bytes(1'234'000'000), "1.2 GB");
}

}  // namespace
}  // namespace ingot
