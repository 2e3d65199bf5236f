// formats.md 2.4 and 2.10: what the container parser refuses, by which rule, and what it
// must accept.  Also field-bugs.md 35.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "formats/checkpoint.h"
#include "formats/expect_refused.h"
#include "formats/gguf_types.h"
#include "formats/test_files.h"

namespace ingot {
namespace {

GgufFile parse(const std::string& file) { return parse_gguf(as_bytes(file), "m.gguf"); }

void expect_all_refused(const std::vector<RefusedFile>& cases) {
  expect_all_refused(cases, "m.gguf", parse);
}

// A file with these pairs and no tensors.
std::string pairs(std::vector<std::string> list) { return gguf_file({.pairs = list}); }
// A file with these tensors, and data enough for any of them that is legal.
std::string tensors(std::vector<std::string> infos, size_t data_bytes = 1 << 16) {
  return gguf_file({.infos = infos, .data_bytes = data_bytes});
}
std::string tensor(const std::vector<uint64_t>& dims, uint32_t type,
                   uint64_t offset = 0) {
  return tensors({gguf_info("t", dims, type, offset)});
}

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4K = 12;
constexpr uint32_t kI8 = 24;

TEST(Gguf, RefusesBrokenHeads) {  // GG-1, GG-2, GG-20
  std::vector<RefusedFile> cases;
  const std::string empty = gguf_file({});
  for (size_t n = 1; n < empty.size(); ++n)
    cases.push_back({"short file", empty.substr(0, n), {n < 4 ? "(GG-1)" : "(GG-20)"}});
  for (size_t i = 0; i < 4; ++i) {
    std::string file = empty;
    file[i] = '#';
    cases.push_back({"magic", file, {"(GG-1)"}});
  }
  cases.push_back({"empty file", "", {"an empty file", "(GG-1)"}});
  for (const uint32_t version : {0u, 4u, 0xffffffffu})
    cases.push_back({"version", gguf_file({.version = version}), {"(GG-1)"}});
  cases.push_back({"version 1", gguf_file({.version = 1}), {"version 1", "(GG-1)"}});
  cases.push_back(
      {"big-endian", gguf_file({.version = 0x03000000}), {"big-endian", "(GG-1)"}});
  for (const uint64_t n :
       {uint64_t(1) << 63, ~uint64_t(0), uint64_t(1), uint64_t(1) << 60}) {
    cases.push_back(
        {"n_tensors", gguf_file({.n_tensors = n}), {std::to_string(n), "(GG-2)"}});
    cases.push_back({"n_kv", gguf_file({.n_pairs = n}), {std::to_string(n), "(GG-2)"}});
  }
  cases.push_back({"65,537 pairs",
                   gguf_file({.n_pairs = 65'537}) + std::string(1 << 20, '\0'),
                   {"65537", "(GG-2)"}});
  expect_all_refused(cases);
}

TEST(Gguf, RefusesOtherFilesByName) {
  expect_all_refused({
      {"zip", std::string("PK\x03\x04", 4) + std::string(60, 'x'), {"zip"}},
      {"lfs", "version https://git-lfs.github.com/spec/v1\n", {"Git-LFS pointer"}},
      {"html", "<html><body>404", {"web page"}},
      {"error", "{\"error\":\"gated\"}", {"error message"}},
      {"ggjt", std::string("tjgg\x03\0\0\0", 8), {"before GGUF"}},
      {"ggml", std::string("lmgg\x03\0\0\0", 8), {"before GGUF"}},
  });
}

TEST(Gguf, RefusesBrokenPairs) {                                // GG-3 .. GG-6
  const std::string value = le(uint32_t(4)) + le(uint32_t(1));  // type u32, 1
  std::vector<RefusedFile> cases;
  for (const uint64_t n : {~uint64_t(0), ~uint64_t(7), uint64_t(1000)})
    cases.push_back({"key length", pairs({le(n) + "abc" + value}), {"(GG-3)"}});
  cases.push_back({"long key",
                   pairs({gguf_string(std::string(65'536, 'k')) + value}),
                   {"65536", "(GG-3)"}});
  cases.push_back({"empty key", pairs({gguf_string("") + value}), {"(GG-6)"}});
  cases.push_back({"key twice",
                   pairs({kv_u32("a", 1), kv_string("a", "x")}),
                   {"'a'", "twice", "(GG-6)"}});
  cases.push_back(
      {"key with NUL", pairs({kv_u32(std::string("a\0b", 3), 1)}), {"(GG-6)"}});
  cases.push_back({"key not ASCII", pairs({kv_u32("caf\xc3\xa9", 1)}), {"(GG-6)"}});
  for (const uint32_t type : {13u, ~0u})
    cases.push_back({"value type",
                     pairs({gguf_kv("a", type, le(uint64_t(0)))}),
                     {"'a'", std::to_string(int32_t(type)), "(GG-5)"}});
  for (const uint32_t type : {13u, ~0u})
    cases.push_back({"element type",
                     pairs({kv_array("a", type, 1, le(uint64_t(0)))}),
                     {"'a'", "(GG-5)"}});
  cases.push_back({"array of arrays",
                   pairs({kv_array("a", 9, 1, le(uint64_t(0)))}),
                   {"'a'", "(GG-4)"}});
  cases.push_back({"array count 2^62",
                   pairs({kv_array("a", 4, uint64_t(1) << 62, "")}),
                   {"'a'", "(GG-4)"}});
  cases.push_back({"array count 2^64-1",
                   pairs({kv_array("a", 0, ~uint64_t(0), "x")}),
                   {"'a'", "(GG-4)"}});
  cases.push_back({"2^61 strings",
                   pairs({kv_array("a", 8, uint64_t(1) << 61, "")}),
                   {"'a'", "(GG-4)"}});
  cases.push_back(
      {"one string too many", pairs({kv_array("a", 8, 2, gguf_string("x"))}), {"'a'"}});
  cases.push_back({"string value past the end",
                   pairs({gguf_kv("a", 8, le(uint64_t(5)) + "abcd")}),
                   {"'a'", "(GG-3)"}});
  cases.push_back({"bool 2", pairs({gguf_kv("a", 7, "\x02")}), {"'a'", "(GG-5)"}});
  cases.push_back({"bool 2 in an array",
                   pairs({kv_array("a", 7, 2, "\x01\x02")}),
                   {"'a'", "(GG-5)"}});
  expect_all_refused(cases);
}

TEST(Gguf, RefusesLongArrays) {  // GG-4: 2^24 values are the most
  const std::string file =
      pairs({kv_array("a", 1, 16'777'217, std::string(16'777'217, '\0'))});
  expect_refused("2^24 + 1 values", [&] { parse(file); }, {"16777217", "(GG-4)"});
}

TEST(Gguf, RefusesBrokenAlignments) {  // GG-7
  std::vector<RefusedFile> cases;
  for (const uint32_t n : {0u, 1u, 2u, 3u, 4u, 13u, 48u, 131072u, 0x80000000u})
    cases.push_back({"alignment",
                     pairs({kv_u32("general.alignment", n)}),
                     {"general.alignment", std::to_string(n), "(GG-7)"}});
  cases.push_back({"as i32",
                   pairs({gguf_kv("general.alignment", 5, le(int32_t(32)))}),
                   {"i32", "(GG-7)"}});
  cases.push_back({"as an array",
                   pairs({kv_array("general.alignment", 4, 1, le(uint32_t(32)))}),
                   {"array", "(GG-7)"}});
  expect_all_refused(cases);
}

TEST(Gguf, RefusesBrokenTensors) {  // GG-8 .. GG-14
  const uint64_t big = uint64_t(1) << 32;
  const auto named = [](std::string_view name) {
    return tensors({gguf_info(name, {8}, kF32, 0)});
  };
  std::vector<RefusedFile> cases = {
      {"no name", named(""), {"(GG-8)"}},
      {"64 bytes of name", named(std::string(64, 'n')), {"64", "(GG-3)"}},
      {"name length 2^64-1",
       tensors({le(~uint64_t(0)) + std::string(33, 'x')}),
       {"(GG-3)"}},
      {"NUL in name", named(std::string("a\0b", 3)), {"(GG-8)"}},
      {"name twice",
       tensors({gguf_info("t", {8}, kF32, 0), gguf_info("t", {8}, kF32, 32)}),
       {"'t' twice", "(GG-8)"}},
      {"0 dims",
       tensors({gguf_info("t", {}, kF32, 0) + std::string(16, '\0')}),
       {"'t'", "(GG-9)"}},
      {"5 dims", tensor({1, 1, 1, 1, 1}, kF32), {"'t'", "(GG-9)"}},
      {"2^32-1 dims",
       tensors({gguf_string("t") + le(~uint32_t(0)) + std::string(64, '\1')}),
       {"'t'", "(GG-9)"}},
      {"dim 0", tensor({0}, kF32), {"'t'", "(GG-10)"}},
      {"dim -1", tensor({~uint64_t(0)}, kF32), {"-1", "(GG-10)"}},
      {"dim 2^63-1", tensor({~uint64_t(0) >> 1}, kI8), {"(GG-11)"}},
      {"dims 2^32 x 2^32", tensor({big, big}, kF32), {"'t'", "(GG-11)"}},
      {"dims 2^42+1",
       tensor({(uint64_t(1) << 42) + 1, uint64_t(1) << 22}, kF32),
       {"(GG-11)"}},
      {"dims 2^31 four times",
       tensor({big / 2, big / 2, big / 2, big / 2}, kF32),
       {"(GG-11)"}},
      {"dims below 2^31 four times",
       tensor({big / 2 - 1, big / 2 - 1, big / 2 - 1, big / 2 - 1}, kF32),
       {"(GG-11)"}},
      {"Q4_K of 255 columns", tensor({255}, kQ4K), {"'t'", "255", "256", "(GG-13)"}},
      {"Q4_K of 128 x 2", tensor({128, 2}, kQ4K), {"(GG-13)"}},
  };
  for (const uint32_t type :
       {4u, 5u, 9u, 15u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 97u, ~0u})
    cases.push_back(
        {"type", tensor({256}, type), {"'t'", std::to_string(int32_t(type)), "(GG-12)"}});
  expect_all_refused(cases);
}

TEST(Gguf, RefusesBrokenLayouts) {  // GG-15 .. GG-18
  const auto two = [](uint64_t second, size_t data = 1 << 12) {
    return tensors({gguf_info("a", {8}, kF32, 0), gguf_info("b", {8}, kF32, second)},
                   data);
  };
  const uint64_t huge = 0x7fffffff;
  const std::string one = tensors({gguf_info("a", {9}, kF32, 0)}, 36);
  expect_all_refused({
      {"unaligned", two(33), {"'b'", "33", "(GG-15)"}},
      {"as the one before", two(0), {"'b'", "(GG-16)"}},
      {"a gap", two(64), {"'b'", "64", "32", "(GG-16)"}},
      {"first not at 0", tensor({8}, kF32, 32), {"(GG-16)"}},
      {"offset 2^64-32", two(~uint64_t(31)), {"(GG-16)"}},
      {"past the file", two(32, 63), {"'b'", "(GG-18)"}},
      {"one byte short", one.substr(0, one.size() - 1), {"'a'", "(GG-18)"}},
      {"no data", tensors({gguf_info("a", {8}, kF32, 0)}, 0), {"'a'", "(GG-18)"}},
      {"two of 2^62 bytes",
       tensors({gguf_info("a", {huge, huge}, kI8, 0),
                gguf_info("b", {huge, huge}, kI8, (huge * huge + 31) / 32 * 32)}),
       {"'a'", "(GG-18)"}},
  });
}

TEST(Gguf, AcceptsWhatIsLegal) {
  EXPECT_TRUE(parse(gguf_file({})).tensors.empty());
  EXPECT_EQ(parse(gguf_file({.version = 2})).version, 2u);
  EXPECT_EQ(parse(pairs({kv_array("a", 4, 0, "")})).metadata.size(), 1u);
  EXPECT_EQ(
      parse(tensors({gguf_info(std::string(63, 'n'), {8}, kF32, 0)})).tensors.size(), 1u);
  for (const uint32_t alignment : {8u, 64u, 65536u}) {
    const GgufFile file = parse(gguf_file(
        {.pairs = {kv_u32("general.alignment", alignment)},
         .infos = {gguf_info("a", {1}, kF32, 0), gguf_info("b", {2}, kF32, alignment)},
         .alignment = alignment,
         .data_bytes = alignment + 8}));  // the last one's padding is missing
    EXPECT_EQ(file.tensors[1].view.bytes.size(), 8u);
    EXPECT_EQ(file.trailing_bytes, 0u);
  }
  const GgufFile trailing = parse(tensors({gguf_info("a", {8}, kF32, 0)}, 32 + 7));
  EXPECT_EQ(trailing.trailing_bytes, 7u);
}

TEST(Gguf, KnowsEveryTypeOfTheTable) {  // formats.md 2.2
  constexpr std::string_view kNames[43] = {
      "f32",     "f16",    "q4_0",    "q4_1",  "",       "",      "q5_0",  "q5_1",
      "q8_0",    "",       "q2_k",    "q3_k",  "q4_k",   "q5_k",  "q6_k",  "",
      "iq2_xxs", "iq2_xs", "iq3_xxs", "iq1_s", "iq4_nl", "iq3_s", "iq2_s", "iq4_xs",
      "i8",      "i16",    "i32",     "i64",   "f64",    "iq1_m", "bf16",  "",
      "",        "",       "tq1_0",   "tq2_0", "",       "",      "",      "mxfp4",
      "nvfp4",   "q1_0",   "q2_0"};
  for (uint32_t id = 0; id < std::size(kNames); ++id) {
    const std::optional<DType> type = ggml_type(id);
    EXPECT_EQ(type ? name(*type) : "", kNames[id]) << id;
    if (!type) continue;
    const auto n = uint64_t(info(*type).group_elements);
    const GgufFile file = parse(tensor({n, 3}, id));
    EXPECT_EQ(file.tensors[0].view.shape, (Shape{3, int64_t(n)}));
    EXPECT_EQ(file.tensors[0].view.bytes.size(), 3u * size_t(info(*type).group_bytes));
  }
}

// A file of PyPI's gguf (tests/tools/make_format_files.py).
TEST(Gguf, ReadsTheReferencesFile) {
  const MappedFile file(INGOT_SOURCE_DIR "/tests/data/formats/reference.gguf");
  const GgufFile g = parse_gguf(file.bytes(), "reference");
  const auto value = [&](const char* key) { return g.metadata.at(key); };
  EXPECT_EQ(value("k.u8"), MetadataValue(uint64_t(200)));
  EXPECT_EQ(value("k.i8"), MetadataValue(int64_t(-100)));
  EXPECT_EQ(value("k.u16"), MetadataValue(uint64_t(60000)));
  EXPECT_EQ(value("k.i16"), MetadataValue(int64_t(-30000)));
  EXPECT_EQ(value("k.u32"), MetadataValue(uint64_t(4000000000)));
  EXPECT_EQ(value("k.i32"), MetadataValue(int64_t(-2000000000)));
  EXPECT_EQ(value("k.f32"), MetadataValue(double(0.1f)));
  EXPECT_EQ(value("k.bool"), MetadataValue(true));
  EXPECT_EQ(value("k.string"), MetadataValue(std::string("h\xc3\xa9llo")));
  EXPECT_EQ(value("k.u64"), MetadataValue(~uint64_t(0)));
  EXPECT_EQ(value("k.i64"), MetadataValue(INT64_MIN));
  EXPECT_EQ(value("k.f64"), MetadataValue(0.1));
  EXPECT_EQ(value("k.ints"), MetadataValue(std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(value("k.floats"), MetadataValue(std::vector<double>{0.5, -1.5}));
  EXPECT_EQ(value("k.strings"), MetadataValue(std::vector<std::string>{"a", "", "c d"}));
  EXPECT_EQ(value("k.bools"), MetadataValue(std::vector<bool>{true, false}));
  ASSERT_EQ(g.tensors.size(), 5u);
  EXPECT_EQ(g.tensors[0].name, "token_embd.weight");
  EXPECT_EQ(g.tensors[0].view.dtype, DType::q4_k);
  EXPECT_EQ(g.tensors[0].view.shape, (Shape{5, 256}));
  EXPECT_EQ(g.tensors[2].view.shape, (Shape{2, 3, 32}));
  EXPECT_EQ(g.tensors[3].view.shape, (Shape{7}));
  EXPECT_EQ(g.tensors[4].view.bytes.size(), 40u);
}

std::string tiny_file() {
  return gguf_file(
      {.pairs = {kv_string("general.architecture", "x"), kv_u32("x.n", 7),
                 kv_f32("x.f", 1.5f), gguf_kv("x.b", 7, "\x01"),
                 kv_array("x.a", 5, 3, std::string(12, '\1')),
                 kv_strings("x.s", {"one", "", "three"})},
       .infos = {gguf_info("a", {7, 3}, kF32, 0), gguf_info("b", {256}, kQ4K, 96),
                 gguf_info("c", {3}, kI8, 256)},
       .data_bytes = 259});
}

// R3: no prefix is taken for a file (the last tensor has no padding here).
TEST(Gguf, RefusesEveryPrefix) {
  const std::string file = tiny_file();
  EXPECT_EQ(parse(file).tensors.size(), 3u);
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_THROW(parse(file.substr(0, n)), Error) << "prefix of " << n << " bytes";
}

// R4: every bit of the header flipped: refused, or the views still lie in the file,
// apart.
TEST(Gguf, FlippedHeaderBitsNeverReachOutside) {
  const std::string file = tiny_file();
  const size_t header_bits = (file.size() - 259) * 8;
  int n_accepted = 0;
  for (size_t bit = 0; bit < header_bits; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      const GgufFile parsed = parse(flipped);
      ++n_accepted;
      const std::byte* end = nullptr;
      for (const GgufTensor& t : parsed.tensors) {
        EXPECT_GE(t.view.bytes.data(), end);
        end = t.view.bytes.data() + t.view.bytes.size();
        EXPECT_LE(end, as_bytes(flipped).data() + flipped.size());
      }
    } catch (const Error&) {
    }
  }
  // Bits of names, of metadata values and of padding are free to change.
  EXPECT_GT(n_accepted, 0);
  EXPECT_LT(n_accepted, int(header_bits * 2 / 3));
}

}  // namespace
}  // namespace ingot
