// Every stored type against values of independent readers (PyPI gguf; formats.md 10.1 for
// the types it lacks): equal bits, not close ones.
#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/hash.h"
#include "tensor/golden.h"
#include "tensor/iq_tables.h"

namespace ingot {
namespace {

const GoldenFile& golden() {
  static const GoldenFile file("quant_golden.safetensors");
  return file;
}

std::vector<DType> quantised_types() {
  std::vector<DType> types;
  for (int i = 0; i < int(DType::count_); ++i)
    if (is_quantised(DType(i))) types.push_back(DType(i));
  return types;
}

// A seeded group of random bytes; the float16 scales may be anything, NaN too.
std::vector<std::byte> random_bytes(size_t n, uint32_t seed) {
  std::vector<std::byte> bytes(n);
  uint32_t state = seed;
  for (std::byte& b : bytes) {
    state = state * 1664525u + 1013904223u;
    b = std::byte(state >> 24);
  }
  return bytes;
}

class EveryQuantisedType : public testing::TestWithParam<DType> {};

TEST_P(EveryQuantisedType, GivesTheBitsOfTheReference) {
  int n_cases = 0;
  for (const char* which : {"random", "spec"}) {
    const std::string key = std::string(name(GetParam())) + "." + which;
    if (!golden().has(key + ".groups")) continue;
    const std::vector<float> wanted = golden().floats(key + ".values");
    std::vector<float> found(wanted.size());
    dequantize_row(GetParam(), golden().bytes(key + ".groups").data(), found);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(wanted[i]))
          << key << " element " << i << ": found " << found[i] << ", wanted "
          << wanted[i];
    }
    ++n_cases;
  }
  EXPECT_GE(n_cases, 1) << "no golden values for " << name(GetParam());
}

TEST_P(EveryQuantisedType, UnpacksIntoTheSameBits) {
  const DTypeInfo& t = info(GetParam());
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    const size_t n_groups = 1 + seed % 3;
    const std::vector<std::byte> row =
        random_bytes(n_groups * size_t(t.group_bytes), seed);
    std::vector<float> values(n_groups * size_t(t.group_elements));
    dequantize_row(GetParam(), row.data(), values);
    std::vector<QuantGroup32> groups(values.size() / 32);
    unpack_groups(GetParam(), row.data(), int64_t(values.size()), groups.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const QuantGroup32& g = groups[i / 32];
      const float product = g.scale[i / 16 % 2] * float(g.code[i % 32]);
      const float value = product + g.offset[i / 16 % 2];
      if (std::isnan(value) && std::isnan(values[i])) continue;  // payloads are not ours
      ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(values[i]))
          << "seed " << seed << " element " << i;
    }
  }
}

TEST_P(EveryQuantisedType, ReadsAtAnyAlignment) {
  const DTypeInfo& t = info(GetParam());
  const std::vector<std::byte> group = random_bytes(size_t(t.group_bytes), 7);
  std::vector<float> wanted(size_t(t.group_elements));
  dequantize_row(GetParam(), group.data(), wanted);
  for (size_t shift = 1; shift < 4; ++shift) {
    std::vector<std::byte> shifted(group.size() + shift);
    std::copy(group.begin(), group.end(), shifted.begin() + std::ptrdiff_t(shift));
    std::vector<float> found(wanted.size());
    dequantize_row(GetParam(), shifted.data() + shift, found);
    EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Dequantize, EveryQuantisedType,
                         testing::ValuesIn(quantised_types()),
                         [](const auto& p) { return std::string(name(p.param)); });

// formats.md 10.1: the group with bytes (197 k + 91) mod 256 and fixed scales.
struct SpecVector {
  DType type;
  std::vector<std::pair<int, int>> overwrite;  // byte, value
  const char* sha256;
};

// clang-format off
const SpecVector kSpecVectors[] = {
    {DType::q1_0, {{0, 0x00}, {1, 0x20}}, "911ddbe94a59729e4cca1d607344ec6408325c9ef9a50f59fa666c1f8048f54e"},
    {DType::q2_0, {{0, 0x00}, {1, 0x20}}, "655cf71eb4e21560e49eac35975e8d6d3f8c9a774506303ff6e705a44aa7034b"},
    {DType::q4_0, {{0, 0x00}, {1, 0x20}}, "6b4d34c0b86a59fe94063569a8e83c03ac6e4fa7306865b37af5882c78e341d9"},
    {DType::q4_1, {{0, 0x00}, {1, 0x20}, {2, 0x00}, {3, 0xa4}}, "2989b05fca29fbdbf0e912fd8c2ca7e714e962feeeb43e8e0d83344d0f70e81b"},
    {DType::q5_0, {{0, 0x00}, {1, 0x20}}, "40f978ac28c936d0350dd6048442947411a68b6efd27bd809f90850020824b8c"},
    {DType::q5_1, {{0, 0x00}, {1, 0x20}, {2, 0x00}, {3, 0xa4}}, "a632217da4e1560a110685dc828db9d85df781de95f3e3cf82ad337f317dd94b"},
    {DType::q8_0, {{0, 0x00}, {1, 0x20}}, "6ac52ad8982e871448d8cc5585f4b733ee0d21c243b03d32745cb768a5c22131"},
    {DType::q2_k, {{80, 0x00}, {81, 0x20}, {82, 0x00}, {83, 0x24}}, "ba6504c324deb0d66485bdc217d186ada6277834983f8beb9e4afdd83257561a"},
    {DType::q3_k, {{108, 0x00}, {109, 0x20}}, "ec2a62d949e4e6b1f76ccc62d56a01a4727a7e3787ec9353cafa3d68fb602092"},
    {DType::q4_k, {{0, 0x00}, {1, 0x20}, {2, 0x00}, {3, 0x24}}, "75734a869283f27a1e928450cdeec317ea8e3ac85c54fb487325e70076d5a3b6"},
    {DType::q5_k, {{0, 0x00}, {1, 0x20}, {2, 0x00}, {3, 0x24}}, "2ad35ca0f1022e210a484e712794c1317cc1aa4cddd44d3fd4eb501b75cd465c"},
    {DType::q6_k, {{208, 0x00}, {209, 0x20}}, "4fea0c69f7fc56607709c13fd2e3fff548ee79f42307e7ce157847dad6a98b6b"},
    {DType::tq1_0, {{52, 0x00}, {53, 0x20}}, "59de2d20a4109f61095a1bc4d1629ce0e6a2275cc4362820008981af382e63e8"},
    {DType::tq2_0, {{64, 0x00}, {65, 0x20}}, "846d2c1a3a3069ec924ade05821c911b405efaf416932cf28247dd0ddae9a379"},
    {DType::iq4_nl, {{0, 0x00}, {1, 0x20}}, "415605497558dd415f0e806823225adb444855846d0187ca305066ea7c4b2fda"},
    {DType::iq4_xs, {{0, 0x00}, {1, 0x20}}, "d34e03fe81e49acb50acedbd8836465f4917b8184e5a260b08af59aa8979f163"},
    {DType::mxfp4, {{0, 120}}, "794964b76d6e4f118162b528844b946a9562ca25f6edfdf2567c6aab904b2fd0"},
    {DType::nvfp4, {{0, 0x30}, {1, 0x38}, {2, 0x41}, {3, 0x07}}, "def5a3375ad3c1e50ac3f5ea05235f1476f54dac0ea8e6b9e3662504f7eb6e47"},
    {DType::iq2_xxs, {{0, 0x00}, {1, 0x20}}, "c769a0932ad2dceb10bdf5d6e2a59729d8e8c573096d9b2fd55492ca3b6a5b36"},
    {DType::iq2_xs, {{0, 0x00}, {1, 0x20}}, "9c8c4a5a7bd12efd1a6e6a2a35ca6669346fb81d9d98769c25095cd11f32ab19"},
    {DType::iq2_s, {{0, 0x00}, {1, 0x20}}, "d7a5af9bb17c6d17f93756de9a3c8dcbafce549ef4b9fe5b843cec1c2258762b"},
    {DType::iq3_xxs, {{0, 0x00}, {1, 0x20}}, "25cfcab8541bd9c5a75f9d938d44450c7917aa90514a626402cbc5c3580fa318"},
    {DType::iq3_s, {{0, 0x00}, {1, 0x20}}, "4c79578936883cf7523e09d0afa8a6d3d478e1b40b6514fc72c7a4220e87d4c3"},
    {DType::iq1_s, {{0, 0x00}, {1, 0x20}}, "d9c5b1ea354ea655fb655a6bad7875f6a174700873c8547ae75205513a88898f"},
};
// clang-format on

std::string sha256_of_values(const std::vector<float>& values) {
  Sha256 hash;
  for (float v : values) {
    const float positive_zero = v == 0.0f ? 0.0f : v;
    hash.update(&positive_zero, sizeof positive_zero);
  }
  return hash.finish_hex();
}

std::vector<std::byte> spec_group(DType type) {
  std::vector<std::byte> group(size_t(info(type).group_bytes));
  for (size_t k = 0; k < group.size(); ++k) group[k] = std::byte((197 * k + 91) % 256);
  return group;
}

TEST(Dequantize, MatchesTheSpecificationsVectors) {
  for (const SpecVector& v : kSpecVectors) {
    std::vector<std::byte> group = spec_group(v.type);
    for (const auto& [at, value] : v.overwrite) group[size_t(at)] = std::byte(value);
    std::vector<float> values(size_t(info(v.type).group_elements));
    dequantize_row(v.type, group.data(), values);
    EXPECT_EQ(sha256_of_values(values), v.sha256) << name(v.type);
  }
}

TEST(Dequantize, MatchesTheSpecificationsIq1MVector) {
  std::vector<std::byte> group = spec_group(DType::iq1_m);
  for (const size_t at : {size_t{49}, size_t{51}, size_t{53}})
    group[at] &= std::byte{0x0f};
  group[55] = (group[55] & std::byte{0x0f}) | std::byte{0x20};
  std::vector<float> values(256);
  dequantize_row(DType::iq1_m, group.data(), values);
  EXPECT_EQ(sha256_of_values(values),
            "e8294241f1cd40d26fd511efc8d50b1aa78d4ba74bf4e0b1002ece089774d3ae");
}

template <typename T, size_t N>
std::string sha256_of_table(const T (&table)[N]) {
  Sha256 hash;
  hash.update(table, sizeof table);
  return hash.finish_hex();
}

TEST(IqTables, AreTheOnesThatDefineTheFormat) {  // formats.md 3.5.2
  EXPECT_EQ(sha256_of_table(kIq2XxsGrid),
            "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54");
  EXPECT_EQ(sha256_of_table(kIq2XsGrid),
            "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de");
  EXPECT_EQ(sha256_of_table(kIq2SGrid),
            "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88");
  EXPECT_EQ(sha256_of_table(kIq3XxsGrid),
            "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d");
  EXPECT_EQ(sha256_of_table(kIq3SGrid),
            "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f");
  EXPECT_EQ(sha256_of_table(kIq1SGrid),
            "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a");
}

TEST(Dequantize, EightBitFloats) {  // formats.md 1.2, 10.5
  EXPECT_EQ(f8_e4m3_to_f32(0x00), 0.0f);
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_EQ(f8_e4m3_to_f32(0x08), 0x1p-6f);
  EXPECT_EQ(f8_e4m3_to_f32(0x38), 1.0f);
  EXPECT_EQ(f8_e4m3_to_f32(0x40), 2.0f);
  EXPECT_EQ(f8_e4m3_to_f32(0x7e), 448.0f);
  EXPECT_EQ(f8_e4m3_to_f32(0xbf), -1.875f);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0x7f)));
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0xff)));
  EXPECT_EQ(f8_e5m2_to_f32(0x7b), 57344.0f);
  EXPECT_TRUE(std::isinf(f8_e5m2_to_f32(0x7c)));
  EXPECT_TRUE(std::isnan(f8_e5m2_to_f32(0x7d)));
  EXPECT_EQ(f8_e5m2_to_f32(0x01), 0x1p-16f);
  EXPECT_EQ(f8_e4m3fnuz_to_f32(0x7f), 240.0f);
  EXPECT_TRUE(std::isnan(f8_e4m3fnuz_to_f32(0x80)));
  EXPECT_EQ(f8_e5m2fnuz_to_f32(0x7f), 57344.0f);
  EXPECT_TRUE(std::isnan(f8_e5m2fnuz_to_f32(0x80)));
  EXPECT_EQ(f8_e8m0_to_f32(0), 0x1p-127f);
  EXPECT_EQ(f8_e8m0_to_f32(127), 1.0f);
  EXPECT_EQ(f8_e8m0_to_f32(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(f8_e8m0_to_f32(255)));
}

TEST(Dequantize, FourBitFloatsPutTheEvenElementInTheLowNibble) {
  const std::byte row[] = {std::byte(0x71), std::byte(0x8f)};
  float values[4];
  dequantize_row(DType::f4_e2m1, row, values);
  EXPECT_EQ(values[0], 0.5f);
  EXPECT_EQ(values[1], 6.0f);
  EXPECT_EQ(values[2], -6.0f);
  EXPECT_EQ(values[3], 0.0f);
  EXPECT_TRUE(std::signbit(values[3]));
}

TEST(Dequantize, Bf16WidensExactly) {  // field-bugs.md 42
  for (uint32_t bits : {0x47c35000u, 0x7f620000u, 0x0da20000u, 0x00010000u, 0x80000000u,
                        0x7f800000u, 0x7fc10000u}) {
    const uint16_t stored = uint16_t(bits >> 16);
    float value = 0.0f;
    dequantize_row(DType::bf16, reinterpret_cast<const std::byte*>(&stored), {&value, 1});
    EXPECT_EQ(std::bit_cast<uint32_t>(value), uint32_t(stored) << 16);
  }
}

TEST(DType, RowBytes) {
  EXPECT_EQ(row_bytes(DType::f32, 3), size_t(12));
  EXPECT_EQ(row_bytes(DType::q4_k, 512), size_t(288));
  EXPECT_EQ(row_bytes(DType::q4_k, 255), std::nullopt);
  EXPECT_EQ(row_bytes(DType::f4_e2m1, 3), std::nullopt);
  EXPECT_EQ(row_bytes(DType::f6_e2m3, 4), size_t(3));
  EXPECT_EQ(row_bytes(DType::f64, uint64_t(1) << 61), std::nullopt);
  EXPECT_EQ(row_bytes(DType::q4_0, 0), size_t(0));
}

TEST(DType, NamesAreUnique) {
  for (int i = 0; i < int(DType::count_); ++i)
    EXPECT_EQ(dtype_named(name(DType(i))), DType(i));
  EXPECT_EQ(dtype_named("q9_z"), std::nullopt);
}

}  // namespace
}  // namespace ingot
