#include "base/hash.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace ingot {
namespace {

std::string sha256(std::string_view text, size_t piece) {
  Sha256 sha;
  for (size_t i = 0; i < text.size(); i += piece)
    sha.update(text.data() + i, std::min(piece, text.size() - i));
  return sha.finish_hex();
}

// FIPS 180-4's published examples (NIST, "SHA256.pdf"), whole and in pieces.
TEST(Hash, Sha256KnownVectors) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{64}, size_t{1} << 20}) {
    EXPECT_EQ(sha256("", piece),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256("abc", piece),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", piece),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256(std::string(1'000'000, 'a'), piece),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

// From `python3 -c "import xxhash; print(xxhash.xxh3_128(b'...').hexdigest())"`; the
// first is also the constant of XXH3's own test suite for empty input.
TEST(Hash, Xxh128KnownVectors) {
  EXPECT_EQ(xxh128_hex("", 0), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(xxh128_hex("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

TEST(Hash, Sha256OfAFileReportsProgress) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("ingot-hash-" + std::to_string(::getpid()));
  std::ofstream(path) << std::string(3'000'000, 'x');
  uint64_t last = 0;
  int n_calls = 0;
  const std::string got = sha256_file(path, [&](uint64_t done) {
    EXPECT_GT(done, last);
    last = done;
    ++n_calls;
  });
  EXPECT_EQ(got, sha256(std::string(3'000'000, 'x'), 1 << 20));
  EXPECT_EQ(last, 3'000'000u);
  EXPECT_GE(n_calls, 3);
  std::filesystem::remove(path);
  EXPECT_THROW(sha256_file(path, {}), Error);
}

}  // namespace
}  // namespace ingot
