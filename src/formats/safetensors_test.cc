// formats.md 1.3 and 1.9: what is refused, by which rule, and what must be accepted.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "formats/checkpoint.h"
#include "formats/expect_refused.h"
#include "formats/safetensors_dtype.h"
#include "formats/test_files.h"

namespace ingot {
namespace {

SafetensorsFile parse(const std::string& file) {
  return parse_safetensors(as_bytes(file), "m.safetensors");
}

void expect_all_refused(const std::vector<RefusedFile>& cases) {
  expect_all_refused(cases, "m.safetensors", parse);
}

std::string st(std::string_view header, size_t data_bytes = 4) {
  return safetensors_file(header, data_bytes);
}
// A length prefix that is not the header's.
std::string with_length(uint64_t n, const std::string& rest = "{}") {
  return le(n) + rest;
}

std::string entry(std::string_view body) { return "{\"a\":{" + std::string(body) + "}}"; }

TEST(Safetensors, RefusesBrokenLengths) {
  std::vector<RefusedFile> cases;
  for (size_t n = 1; n < 8; ++n)
    cases.push_back({"short file", std::string(n, '\0'), {"(ST-1)"}});
  cases.push_back({"empty file", "", {"an empty file"}});
  cases.push_back({"N = 0", with_length(0, ""), {"(ST-5)"}});
  cases.push_back(
      {"N over the limit", with_length(100'000'001), {"100000001", "(ST-2)"}});
  cases.push_back({"N = 2^63", with_length(uint64_t(1) << 63), {"(ST-2)"}});
  cases.push_back({"N = 2^64 - 1", with_length(~uint64_t(0)), {"(ST-2)"}});
  cases.push_back({"N = 2^64 - 8, which wraps", with_length(~uint64_t(7)), {"(ST-2)"}});
  cases.push_back({"N one past the file", with_length(3), {"(ST-3)"}});
  expect_all_refused(cases);
}

TEST(Safetensors, RefusesLaxJson) {
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  expect_all_refused({
      {"bad UTF-8", st("{\"\xff\":0}"), {"(ST-4)"}},
      {"overlong form", st("{\"\xc0\xaf\":0}"), {"(ST-4)"}},
      {"encoded surrogate", st("{\"\xed\xa0\x80\":0}"), {"(ST-4)"}},
      {"array", st("[]"), {"(ST-5)"}},
      {"leading space", st(" {}"), {"(ST-5)"}},
      {"byte order mark", st("\xef\xbb\xbf{}"), {"(ST-5)"}},
      {"lone high surrogate", st(R"({"\ud800":0})"), {"(ST-6)"}},
      {"lone low surrogate", st(R"({"\udc00":0})"), {"(ST-6)"}},
      {"raw control character", st("{\"a\nb\":0}"), {"(ST-6)"}},
      {"comment", st("{/* */}"), {"(ST-6)"}},
      {"trailing comma", st("{" + ("\"a\":{" + good + "},") + "}"), {"(ST-6)"}},
      {"NaN", st(R"({"a":NaN})"), {"(ST-6)"}},
      {"trailing garbage", st("{}x"), {"(ST-6)"}},
      {"second value", st("{}{}"), {"(ST-6)"}},
      {"NUL padding", st(std::string("{}\0\0", 4)), {"(ST-6)"}},
      {"unfinished", st("{\"a\":"), {"(ST-6)"}},
      {"deep nesting", st("{\"a\":" + deep + "}"), {"(ST-6)"}},
      {"leading zero",
       st(entry(R"("dtype":"F32","shape":[01],"data_offsets":[0,4])")),
       {"(ST-6)"}},
      {"duplicate tensor",
       st("{\"a\":{" + good + "},\"a\":{" + good + "}}"),
       {"'a'", "(ST-7)"}},
      {"duplicate by escape",
       st("{\"a\":{" + good + "},\"\\u0061\":{" + good + "}}"),
       {"(ST-7)"}},
      {"duplicate __metadata__",
       st(R"({"__metadata__":{},"__metadata__":{}})"),
       {"__metadata__", "(ST-7)"}},
      {"duplicate dtype", st(entry(R"("dtype":"F32",)" + good)), {"'dtype'", "(ST-7)"}},
  });
}

TEST(Safetensors, RefusesBrokenEntries) {
  expect_all_refused({
      {"number", st(R"({"a":1})"), {"'a'", "(ST-8)"}},
      {"positional array", st(R"({"a":["F32",[1],[0,4]]})"), {"'a'", "(ST-8)"}},
      {"no dtype", st(entry(R"("shape":[1],"data_offsets":[0,4])")), {"dtype", "(ST-8)"}},
      {"no shape",
       st(entry(R"("dtype":"F32","data_offsets":[0,4])")),
       {"shape", "(ST-8)"}},
      {"no offsets",
       st(entry(R"("dtype":"F32","shape":[1])")),
       {"data_offsets", "(ST-8)"}},
      {"unknown field",
       st(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)")),
       {"'x'", "(ST-8)"}},
      {"dtype number",
       st(entry(R"("dtype":1,"shape":[1],"data_offsets":[0,4])")),
       {"(ST-8)"}},
      {"unknown dtype",
       st(entry(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])")),
       {"'a'", "'F33'"}},
      {"lower-case dtype",
       st(entry(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])")),
       {"'f32'"}},
      {"shape object",
       st(entry(R"("dtype":"F32","shape":{},"data_offsets":[0,4])")),
       {"(ST-8)"}},
      {"dim -1",
       st(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])")),
       {"-1", "(ST-9)"}},
      {"dim -0",
       st(entry(R"("dtype":"F32","shape":[-0],"data_offsets":[0,0])"), 0),
       {"(ST-9)"}},
      {"dim 1.0",
       st(entry(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])")),
       {"(ST-9)"}},
      {"dim 1e3",
       st(entry(R"("dtype":"F32","shape":[1e3],"data_offsets":[0,4])")),
       {"(ST-9)"}},
      {"dim string",
       st(entry(R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])")),
       {"(ST-9)"}},
      {"dim 2^64",
       st(entry(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4])")),
       {"(ST-9)"}},
      {"offsets empty",
       st(entry(R"("dtype":"F32","shape":[1],"data_offsets":[])")),
       {"(ST-9)"}},
      {"three offsets",
       st(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])")),
       {"(ST-9)"}},
      {"offset 4.0",
       st(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4.0])")),
       {"(ST-9)"}},
      {"offsets reversed",
       st(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])")),
       {"(ST-10)"}},
      {"rank 9",
       st(entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])")),
       {"(ST-21)"}},
      {"empty name",
       st(R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
       {"(ST-20)"}},
      {"NUL in name",
       st(R"({"a\u0000b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
       {"(ST-20)"}},
      {"long name",
       st("{\"" + std::string(1025, 'n') +
          R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
       {"1025", "(ST-20)"}},
      {"metadata number",
       st(R"({"__metadata__":{"format":1}})", 0),
       {"'format'", "(ST-19)"}},
      {"metadata array", st(R"({"__metadata__":[]})", 0), {"(ST-19)"}},
  });
}

TEST(Safetensors, RefusesBrokenLayouts) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string b = R"("b":{"dtype":"F32","shape":[1],"data_offsets":)";
  const auto two = [&](const char* offsets) {
    return "{" + a + "," + b + offsets + "}}";
  };
  expect_all_refused({
      {"dims 2^32 x 2^32",
       st(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
          0),
       {"(ST-11)"}},
      {"bytes wrap",
       st(entry(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"),
          0),
       {"(ST-11)"}},
      {"zero hides an overflow",
       st(entry(R"("dtype":"F32","shape":[9223372036854775807,9223372036854775807,0],)"
                R"("data_offsets":[0,0])"),
          0),
       {"(ST-11)"}},
      {"one F6 element",
       st(entry(R"("dtype":"F6_E2M3","shape":[1],"data_offsets":[0,1])"), 1),
       {"(ST-11)"}},
      {"odd F4 count",
       st(entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2),
       {"(ST-11)"}},
      {"first not at 0",
       st(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8),
       {"hole", "(ST-12)"}},
      {"one-byte hole", st(two("[5,9]"), 9), {"'b'", "hole", "(ST-12)"}},
      {"one-byte overlap", st(two("[3,7]"), 7), {"'b'", "overlap", "(ST-12)"}},
      {"identical ranges", st(two("[0,4]"), 4), {"overlap", "(ST-12)"}},
      {"size mismatch",
       st(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])")),
       {"[0, 4]", "[2]", "8", "(ST-13)"}},
      {"a megabyte in four bytes",  // field-bugs.md 37
       st(entry(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])")),
       {"'a'", "4000000", "(ST-13)"}},
      {"offsets past the file",
       st(entry(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4000000])")),
       {"(ST-14)"}},
      {"one trailing byte", st("{" + a + "}", 5), {"(ST-14)"}},
      {"one byte short", st("{" + a + "}", 3), {"(ST-14)"}},
      {"data without tensors", st("{}", 1), {"(ST-14)"}},
  });
}

TEST(Safetensors, RefusesOtherFilesByName) {  // formats.md 0.2
  expect_all_refused({
      {"zip", std::string("PK\x03\x04", 4) + std::string(60, 'x'), {"zip", "unpickled"}},
      {"pickle", std::string("\x80\x02}q\x01(", 6) + std::string(60, 'x'), {"pickle"}},
      {"lfs",
       "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
       {"Git-LFS pointer"}},
      {"html", "\n<!DOCTYPE html><html></html>", {"web page"}},
      {"error", "{\"error\":\"Repository not found\"}", {"error message"}},
      {"npy", "\x93NUMPY\x01 and so on", {"NumPy"}},
  });
}

TEST(Safetensors, AcceptsWhatIsLegal) {
  EXPECT_TRUE(parse(st("{}", 0)).entries.empty());
  EXPECT_TRUE(parse(st("{} \t\r\n", 0)).entries.empty());
  const SafetensorsFile scalar =
      parse(st(entry(R"("dtype":"F32","shape":[],"data_offsets":[0,4])")));
  ASSERT_EQ(scalar.entries.size(), 1u);
  EXPECT_TRUE(scalar.entries[0].view.shape.empty());
  EXPECT_EQ(scalar.entries[0].view.bytes.size(), 4u);

  const SafetensorsFile zeros =
      parse(st(R"({"z1":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
               R"("z2":{"dtype":"I8","shape":[3,0],"data_offsets":[0,0]},)"
               R"("x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("z3":{"dtype":"I8","shape":[0],"data_offsets":[4,4]}})"));
  EXPECT_EQ(zeros.entries.size(), 4u);
  EXPECT_EQ(zeros.entries[0].view.rows(), 0);

  const SafetensorsFile named = parse(
      st(R"({"__metadata__":{"format":"pt"},"\u00e9":{"data_offsets":[0,4],"shape":[2],)"
         R"("dtype":"BF16"}})"));
  EXPECT_EQ(named.metadata.at("format"), "pt");
  EXPECT_EQ(named.entries[0].name, "\xc3\xa9");
}

TEST(Safetensors, AcceptsEveryDtype) {
  for (const char* dtype :
       {"BOOL",    "F4",      "F6_E2M3", "F6_E3M2",     "U8",          "I8",
        "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",
        "U16",     "F16",     "BF16",    "I32",         "U32",         "F32",
        "C64",     "F64",     "I64",     "U64"}) {
    const std::optional<DType> type = safetensors_dtype(dtype);
    ASSERT_TRUE(type) << dtype;
    EXPECT_EQ(safetensors_name(*type), dtype);
    const size_t n_bytes = *row_bytes(*type, 8);
    const std::string header = "{\"a\":{\"dtype\":\"" + std::string(dtype) +
                               "\",\"shape\":[2,4],\"data_offsets\":[0," +
                               std::to_string(n_bytes) + "]}}";
    EXPECT_EQ(parse(st(header, n_bytes)).entries[0].view.dtype, *type);
  }
}

TEST(Safetensors, LimitOnMetadata) {  // ST-19
  std::string header = "{\"__metadata__\":{";
  for (int i = 0; i < 10'001; ++i)
    header += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
  expect_refused("10,001 metadata entries", [&] { parse(st(header + "}}", 0)); },
                 {"10001", "(ST-19)"});
}

// A file of PyPI's safetensors with every dtype that it writes (tests/tools).
TEST(Safetensors, ReadsTheReferencesFile) {
  const MappedFile file(INGOT_SOURCE_DIR "/tests/data/formats/reference.safetensors");
  const SafetensorsFile parsed = parse_safetensors(file.bytes(), "reference");
  ASSERT_GE(parsed.entries.size(), 14u);
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
  for (const SafetensorsEntry& entry : parsed.entries) {
    EXPECT_EQ(entry.view.shape, (Shape{2, 3}));
    // The writer put 1, 2, 3, ... into the bytes and the type into the name.
    EXPECT_EQ(entry.name, safetensors_name(entry.view.dtype));
    for (size_t i = 0; i < entry.view.bytes.size(); ++i)
      ASSERT_EQ(size_t(entry.view.bytes[i]), (i + 1) % 2) << entry.name;
  }
}

// R3: no prefix of a file is taken for a file, and none crashes.
TEST(Safetensors, RefusesEveryPrefix) {
  const std::string file =
      st(R"({"__metadata__":{"format":"pt"},)"
         R"("a":{"dtype":"F32","shape":[5,7],"data_offsets":[0,140]},)"
         R"("b":{"dtype":"I8","shape":[3],"data_offsets":[140,143]}}   )",
         143);
  EXPECT_EQ(parse(file).entries.size(), 2u);
  for (size_t n = 0; n < file.size(); ++n)
    EXPECT_THROW(parse(file.substr(0, n)), Error) << "prefix of " << n << " bytes";
}

// R4: a flipped bit of the header is refused, or it changed only a name, a number in a
// shape that has the same product, a type of the same width, or white space.
TEST(Safetensors, FlippedHeaderBitsNeverReachOutside) {
  const std::string file =
      st(R"({"a":{"dtype":"F32","shape":[5,7],"data_offsets":[0,140]},)"
         R"("b":{"dtype":"I8","shape":[3],"data_offsets":[140,143]}})",
         143);
  int n_accepted = 0;
  const size_t header_bits = (file.size() - 143) * 8;
  for (size_t bit = 0; bit < header_bits; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      const SafetensorsFile parsed = parse(flipped);
      ++n_accepted;
      size_t n_bytes = 0;
      for (const SafetensorsEntry& e : parsed.entries) {
        EXPECT_EQ(row_bytes(e.view.dtype, uint64_t(element_count(e.view.shape))),
                  e.view.bytes.size());
        n_bytes += e.view.bytes.size();
      }
      EXPECT_EQ(n_bytes, 143u) << "bit " << bit;
    } catch (const Error&) {
    }
  }
  EXPECT_LT(n_accepted, int(header_bits / 10));
}

// ---- the writer
// -------------------------------------------------------------------------

TEST(SafetensorsWriter, OrdersAlignsAndReadsBack) {
  const TemporaryDirectory directory;
  const std::string wide(24, '\x01');
  const std::string narrow(3, '\x02');
  const auto path = directory.path() / "out.safetensors";
  const std::vector<SafetensorsWriteEntry> entries = {
      {"b\"\n\xc3\xa9", {DType::u8, {3}, as_bytes(narrow)}},
      {"z", {DType::f32, {2, 3}, as_bytes(wide)}},
      {"a", {DType::f64, {3}, as_bytes(wide)}},
      {"e", {DType::bf16, {0, 4}, {}}},
  };
  std::vector<SafetensorsWriteEntry> legal = entries;
  legal[0].name = "b\xc3\xa9";
  write_safetensors(path, legal, {{"format", "pt"}});
  const std::string first = read_file(path);
  const SafetensorsFile parsed = parse(first);
  ASSERT_EQ(parsed.entries.size(), 4u);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, first.data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
  EXPECT_EQ(first.substr(8, 17), "{\"__metadata__\":{");
  EXPECT_EQ(parsed.entries[0].name, "a");
  EXPECT_EQ(parsed.entries[1].name, "z");
  EXPECT_EQ(parsed.entries[3].name, "b\xc3\xa9");
  for (const SafetensorsEntry& e : parsed.entries) {
    const auto offset = size_t(e.view.bytes.data() - as_bytes(first).data());
    EXPECT_EQ(offset % size_t(info(e.view.dtype).group_bytes), 0u) << e.name;
  }
  // Reproducible, whatever the order given.
  write_safetensors(path, {legal.rbegin(), legal.rend()}, {{"format", "pt"}});
  EXPECT_EQ(read_file(path), first);
}

TEST(SafetensorsWriter, RefusesWhatNoReaderTakes) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "out.safetensors";
  const std::string data(18, '\x01');
  const TensorView q4{DType::q4_0, {32}, as_bytes(data)};
  expect_refused("ggml type",
                 [&] {
                   write_safetensors(path, {{"a", q4}}, {});
                 },
                 {"out.safetensors", "'a'", "q4_0"});
  const TensorView f32{DType::f32, {3}, as_bytes(data)};
  expect_refused("wrong size",
                 [&] {
                   write_safetensors(path, {{"a", f32}}, {});
                 },
                 {"'a'", "18", "12"});
  const TensorView u8{DType::u8, {18}, as_bytes(data)};
  expect_refused("twice",
                 [&] {
                   write_safetensors(path, {{"a", u8}, {"a", u8}}, {});
                 },
                 {"'a' twice"});
  EXPECT_FALSE(std::filesystem::exists(path));
}

// field-bugs.md 42: a plain copy is bit-identical, whatever the floats are.
TEST(SafetensorsWriter, KeepsOddFloats) {
  const TemporaryDirectory directory;
  std::string data;
  for (const int bits : {0x47c3, 0x7f62, 0x0da2, 0x0001, 0x8000, 0x7f80, 0x7fc1})
    data += le(uint16_t(bits));
  const auto path = directory.path() / "out.safetensors";
  write_safetensors(path, {{"a", {DType::bf16, {7}, as_bytes(data)}}}, {});
  const std::string file = read_file(path);
  const SafetensorsFile parsed = parse(file);
  EXPECT_EQ(std::memcmp(parsed.entries[0].view.bytes.data(), data.data(), data.size()),
            0);
}

}  // namespace
}  // namespace ingot
