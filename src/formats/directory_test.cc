// Model directories: formats.md 1.6 (ST-30 .. ST-39), field-bugs.md 38 and 43.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/expect_refused.h"
#include "formats/shard_index.h"
#include "formats/test_files.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kOne[] = "model-00001-of-00002.safetensors";
constexpr char kTwo[] = "model-00002-of-00002.safetensors";

// A file that holds the named tensors, one float each.
std::string shard(const std::vector<std::string>& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i)
    header += (i ? ",\"" : "\"") + names[i] +
              R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" + std::to_string(4 * i) +
              "," + std::to_string(4 * i + 4) + "]}";
  return safetensors_file(header + "}", 4 * names.size());
}

std::string index_of(const std::string& map, const std::string& metadata = "{}") {
  return R"({"metadata":)" + metadata + R"(,"weight_map":)" + map + "}";
}
const std::string kGoodMap =
    R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})";

// A directory with a good index and both shards.
void write_good(const TemporaryDirectory& d) {
  d.write(kIndex, index_of(kGoodMap, R"({"total_size":8})"));
  d.write(kOne, shard({"a"}));
  d.write(kTwo, shard({"b"}));
}

TEST(ModelDirectory, OpensShardsAndConfigs) {
  const TemporaryDirectory d;
  write_good(d);
  d.write("config.json", R"({"model_type":"x"})");
  d.write("generation_config.json", "{}");
  d.write("extra.safetensors", "not even a file of the format");  // not named: ignored
  const Checkpoint checkpoint = open_checkpoint(d.path());
  EXPECT_EQ(checkpoint.tensors.size(), 2u);
  EXPECT_EQ(checkpoint.config_json, R"({"model_type":"x"})");
  EXPECT_EQ(checkpoint.generation_config_json, "{}");
  EXPECT_EQ(checkpoint.require("b").file->path().filename(), kTwo);
  const std::vector<DTypeTotal> totals = totals_by_dtype(checkpoint);
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_EQ(totals[0].n_bytes, 8u);
}

TEST(ModelDirectory, OpensASingleFile) {
  const TemporaryDirectory d;
  const fs::path file = d.write("model.safetensors", shard({"a", "b", "c"}));
  EXPECT_EQ(open_checkpoint(d.path()).tensors.size(), 3u);
  EXPECT_EQ(open_checkpoint(file).tensors.size(), 3u);
  d.write(kIndex, index_of(kGoodMap));  // ST-38: the index wins
  d.write(kOne, shard({"a"}));
  d.write(kTwo, shard({"b"}));
  EXPECT_EQ(open_checkpoint(d.path()).tensors.size(), 2u);
}

struct DirectoryCase {
  const char* what;
  std::vector<std::pair<std::string, std::string>> files;  // "" removes
  std::vector<std::string> words;
};

TEST(ModelDirectory, RefusesContradictions) {
  const std::vector<DirectoryCase> cases = {
      {"second shard missing", {{kTwo, ""}}, {kTwo, "missing", "(ST-36)"}},
      {"unnumbered shard missing",
       {{kIndex, index_of(R"({"a":"x.safetensors"})")}},
       {"x.safetensors", "(ST-32)"}},
      {"shard broken", {{kTwo, shard({"b"}) + "x"}}, {kTwo, "(ST-14)"}},
      {"tensor absent", {{kTwo, shard({"c"})}}, {"'b'", kTwo, "(ST-33)"}},
      {"tensor in the wrong shard",
       {{kOne, shard({"a", "b"})}, {kTwo, shard({"c"})}},
       {"'b'", "(ST-33)"}},
      {"tensor in two shards", {{kOne, shard({"a", "b"})}}, {"'b'", "(ST-34)"}},
      {"number missing in the sequence",
       {{kIndex, index_of(R"({"a":"model-00001-of-00003.safetensors",)"
                          R"("b":"model-00003-of-00003.safetensors"})")},
        {"model-00001-of-00003.safetensors", shard({"a"})},
        {"model-00003-of-00003.safetensors", shard({"b"})}},
       {"model-00002-of-00003.safetensors", "(ST-36)"}},
  };
  for (const DirectoryCase& c : cases) {
    const TemporaryDirectory d;
    write_good(d);
    for (const auto& [name, bytes] : c.files) {
      if (bytes.empty())
        fs::remove(d.path() / name);
      else
        d.write(name, bytes);
    }
    expect_refused(
        c.what, [&] { open_checkpoint(d.path()); }, c.words);
  }
}

TEST(ModelDirectory, RefusesWhatIsNoModel) {
  const TemporaryDirectory d;
  expect_refused("absent", [&] { open_checkpoint(d.path() / "none"); },
                 {"none: no such file"});
  expect_refused("empty", [&] { open_checkpoint(d.path()); }, {"model.safetensors"});
  d.write("pytorch_model.bin", "x");
  expect_refused("torch", [&] { open_checkpoint(d.path()); }, {"pytorch_model.bin"});
  const fs::path text = d.write("notes.txt", "hello, this is no model");
  expect_refused("text", [&] { open_checkpoint(text); },
                 {"notes.txt: ", "no model file"});
  const fs::path one = d.write(kOne, shard({"a"}));
  expect_refused("one shard", [&] { open_checkpoint(one); }, {"one shard of 2"});
}

// ---- the index alone
// ----------------------------------------------------------------------

TEST(ShardIndex, RefusesBrokenIndexes) {
  const auto file = [](const std::string& name) {
    return index_of("{\"a\":\"" + name + "\"}");
  };
  struct Case {
    const char* what;
    std::string text;
    const char* rule;
  };
  const std::vector<Case> cases = {
      {"array", "[]", "(ST-30)"},
      {"empty", "", "(ST-30)"},
      {"no map", "{}", "(ST-30)"},
      {"map is a list", index_of("[]"), "(ST-30)"},
      {"no tensor", index_of("{}"), "(ST-30)"},
      {"number", index_of(R"({"a":1})"), "(ST-30)"},
      {"bad UTF-8", index_of("{\"\xff\":\"m.safetensors\"}"), "(ST-4)"},
      {"trailing", index_of(kGoodMap) + "{}", "(ST-6)"},
      {"duplicate", index_of(R"({"a":"m.safetensors","a":"m.safetensors"})"), "(ST-7)"},
      {"parent", file("../m.safetensors"), "(ST-31)"},
      {"absolute", file("/m.safetensors"), "(ST-31)"},
      {"backslash", file("x\\\\m.safetensors"), "(ST-31)"},
      {"drive", file("C:m.safetensors"), "(ST-31)"},
      {"NUL", file("m\\u0000.safetensors"), "(ST-31)"},
      {"hidden", file("..safetensors"), "(ST-31)"},
      {"another kind", file("m.bin"), "(ST-31)"},
      {"empty name", file(""), "(ST-31)"},
      {"adapter", file("adapter_model.safetensors"), "(ST-39)"},
      {"consolidated", file("consolidated.safetensors"), "(ST-39)"},
      {"fp16 variant", file("model.fp16.safetensors"), "(ST-39)"},
      {"two counts",
       index_of(
           R"({"a":"m-00001-of-00002.safetensors","b":"m-00002-of-00003.safetensors"})"),
       "(ST-36)"},
      {"number past the count", file("m-00003-of-00002.safetensors"), "(ST-36)"},
      {"number 0", file("m-00000-of-00002.safetensors"), "(ST-36)"},
  };
  for (const Case& c : cases)
    expect_refused(c.what, [&] { parse_shard_index(c.text, "index.json"); },
                   {c.rule, "index.json: "});
}

TEST(ModelDirectory, NamesPointersAndErrorPages) {  // formats.md 0.2
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
  const TemporaryDirectory d;
  write_good(d);
  d.write(kTwo, pointer);
  expect_refused("shard", [&] { open_checkpoint(d.path()); }, {kTwo, "Git-LFS pointer"});
  d.write(kIndex, pointer);
  expect_refused("index", [&] { open_checkpoint(d.path()); },
                 {kIndex, "Git-LFS pointer"});
  d.write(kIndex, "<html>404");
  expect_refused("page", [&] { open_checkpoint(d.path()); }, {kIndex, "web page"});
}

TEST(ShardIndex, ReadsNamesAndSize) {
  const ShardIndex index = parse_shard_index(
      index_of(kGoodMap, R"({"total_size":12345678901234,"total_parameters":7})"), "i");
  EXPECT_EQ(index.file_of.at("b"), kTwo);
  EXPECT_EQ(index.total_size, 12345678901234u);
}

TEST(ShardIndex, PartNames) {
  const auto part = part_name("a-b-00012-of-00345.gguf", ".gguf");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->prefix, "a-b");
  EXPECT_EQ(part->number, 12);
  EXPECT_EQ(part->count, 345);
  EXPECT_EQ(part_file(*part, ".gguf"), "a-b-00012-of-00345.gguf");
  for (const char* name : {"model.gguf", "-0001-of-00002.gguf", "m-00001-of-0000x.gguf",
                           "m-00001_of_00002.gguf", "m-00001-of-00002.safetensors", ""})
    EXPECT_FALSE(part_name(name, ".gguf")) << name;
}

// ---- paths
// --------------------------------------------------------------------------------

TEST(ModelDirectory, SymlinksStayInsideOrAmongBlobs) {  // ST-31
  const TemporaryDirectory outside;
  outside.write("m.safetensors", shard({"b"}));
  const TemporaryDirectory d;
  write_good(d);
  fs::remove(d.path() / kTwo);
  fs::create_symlink(outside.path() / "m.safetensors", d.path() / kTwo);
  expect_refused("link outside", [&] { open_checkpoint(d.path()); }, {kTwo, "(ST-31)"});
  fs::remove(d.path() / kTwo);
  fs::create_symlink("gone.safetensors", d.path() / kTwo);
  expect_refused("dangling link", [&] { open_checkpoint(d.path()); }, {kTwo});
  // The layout of the hub's cache: snapshots/REVISION/NAME -> ../../blobs/HASH.
  const TemporaryDirectory cache;
  cache.write("blobs/1111", shard({"a"}));
  cache.write("blobs/2222", shard({"b"}));
  cache.write(fs::path("snapshots/abc") / kIndex, index_of(kGoodMap));
  fs::create_symlink("../../blobs/1111", cache.path() / "snapshots/abc" / kOne);
  fs::create_symlink("../../blobs/2222", cache.path() / "snapshots/abc" / kTwo);
  EXPECT_EQ(open_checkpoint(cache.path() / "snapshots/abc").tensors.size(), 2u);
}

TEST(ModelDirectory, OpensUnderAnyName) {  // field-bugs.md 43
  for (const std::string& name :
       {std::string("Zo\xc3\xab \xe6\xa8\xa1\xe5\x9e\x8b \xf0\x9f\x8e\x88 a'b\"c"),
        std::string("trailing "), std::string("bad \xff\xfe utf8"),
        std::string(250, 'x')}) {
    const TemporaryDirectory d;
    d.write(fs::path(name) / "model.safetensors", shard({"a"}));
    EXPECT_EQ(open_checkpoint(d.path() / name).tensors.size(), 1u);
    d.write(fs::path(name) / "model.safetensors", "x");
    expect_refused("broken", [&] { open_checkpoint(d.path() / name); }, {"(ST-1)"});
  }
  const TemporaryDirectory d;
  d.write("real/model.safetensors", shard({"a"}));
  fs::create_directory_symlink("real", d.path() / "link");
  EXPECT_EQ(open_checkpoint(d.path() / "link").tensors.size(), 1u);
}

}  // namespace
}  // namespace ingot
