// What MODEL means, and the store's records.  Crashes, full disks and permissions are
// tried from outside, in tests/test_hub.py.
#include "formats/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "formats/store_write.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A store of its own, and a current folder of its own.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/store_test_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    before_ = fs::current_path();
    fs::create_directories(home_ / "here");
    fs::current_path(home_ / "here");
    ::setenv("INGOT_HOME", home_.c_str(), 1);
    ::setenv("HF_HUB_OFFLINE", "1", 1);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(home_);
    ::unsetenv("INGOT_HOME");
    ::unsetenv("HF_HUB_OFFLINE");
  }
  void write(const fs::path& path, std::string_view text = "x") const {
    fs::create_directories((home_ / path).parent_path());
    std::ofstream(home_ / path) << text;
  }
  void publish(const std::string& name, const std::string& file,
               const std::string& reference) const {
    Incoming incoming("key");
    std::ofstream(incoming.directory() / file) << "weights";
    StoreEntry entry;
    entry.name = name;
    entry.reference = reference;
    entry.source = "hf:a/b@" + std::string(40, 'c') + ":" + file;
    incoming.publish(entry, file);
  }
  static std::string error_of(std::string_view reference) {
    try {
      return "no error: " + resolve_model(reference).string();
    } catch (const Error& error) {
      return std::string(error.what()) + "\n" + error.hint();
    }
  }

  fs::path home_, before_;
};

TEST_F(StoreTest, PathsGoAsTheyAre) {
  write("here/m.gguf");
  write("here/dir/config.json");
  EXPECT_EQ(resolve_model("m.gguf"), "m.gguf");
  EXPECT_EQ(resolve_model("./m.gguf"), "./m.gguf");
  EXPECT_EQ(resolve_model("dir"), "dir");
  EXPECT_EQ(resolve_model((home_ / "here/dir").string()), home_ / "here/dir");
  EXPECT_EQ(resolve_model("dir/"), "dir/");
}

TEST_F(StoreTest, ADirectoryOfOneGgufIsThatFile) {
  write("here/one/m.gguf");
  write("here/one/mmproj-m.gguf");
  write("here/parts/m-00001-of-00002.gguf");
  write("here/parts/m-00002-of-00002.gguf");
  write("here/two/a.gguf");
  write("here/two/b.gguf");
  EXPECT_EQ(resolve_model("one"), "one/m.gguf");
  EXPECT_EQ(resolve_model("parts"), "parts/m-00001-of-00002.gguf");
  EXPECT_EQ(resolve_model("./two"), "./two");
}

TEST_F(StoreTest, NamesOfTheStore) {
  publish("mine", "m.gguf", "hf:a/b:Q8_0");
  EXPECT_EQ(resolve_model("mine"), home_ / "models/mine/m.gguf");
  // A folder of that name that holds no model does not hide it; one with a model does.
  fs::create_directories("mine");
  EXPECT_EQ(resolve_model("mine"), home_ / "models/mine/m.gguf");
  write("here/mine/config.json");
  EXPECT_EQ(resolve_model("mine"), "mine");
  EXPECT_THAT(error_of("mime"), HasSubstr("did you mean 'mine'?"));
  EXPECT_THAT(error_of("other-model-7b"), HasSubstr("ingot pull"));
  EXPECT_THAT(error_of("../models/mine2"), HasSubstr("no such file or directory"));
  EXPECT_THAT(error_of(""), HasSubstr("MODEL: empty"));
}

TEST_F(StoreTest, HubReferencesOfTheStore) {
  publish("mine", "m.gguf", "hf:a/b:Q8_0");
  EXPECT_EQ(resolve_model("hf:a/b:q8_0"), home_ / "models/mine/m.gguf");
  EXPECT_EQ(resolve_model("hf:a/b@" + std::string(40, 'c') + ":m.gguf"),
            home_ / "models/mine/m.gguf");
  EXPECT_THAT(error_of("hf:a/b:Q4_0"), HasSubstr("not in the store"));
}

TEST_F(StoreTest, PublishReplacesAndRemoveFrees) {
  publish("mine", "m.gguf", "hf:a/b:Q8_0");
  publish("mine", "n.gguf", "hf:a/b:Q8_0");
  ASSERT_EQ(list_store().size(), 1U);
  EXPECT_EQ(list_store()[0].path, home_ / "models/mine/n.gguf");
  EXPECT_FALSE(fs::exists(home_ / "models/mine/m.gguf"));
  EXPECT_FALSE(fs::exists(home_ / "models/mine/.lock"));
  EXPECT_GE(remove_from_store("mine"), 7U);
  EXPECT_TRUE(list_store().empty());
  EXPECT_THROW(remove_from_store("mine"), Error);
}

TEST_F(StoreTest, ARecordIsOnlyAHint) {
  publish("mine", "m.gguf", "hf:a/b:Q8_0");
  for (const char* record :
       {"", "[]", "{", R"({"file": "../../x"})", R"({"file": "/etc/passwd"})",
        R"({"file": 5, "name": [], "source": {}})", R"({"file": ".."})"}) {
    write("models/mine/.ingot.json", record);
    ASSERT_EQ(list_store().size(), 1U) << record;
    EXPECT_EQ(list_store()[0].name, "mine");
    EXPECT_EQ(list_store()[0].path, home_ / "models/mine/m.gguf") << record;
  }
  // A folder that someone put there by hand is a model as well.
  write("models/byhand/config.json");
  EXPECT_EQ(resolve_model("byhand"), home_ / "models/byhand");
}

TEST_F(StoreTest, SweepKeepsUnfinishedDownloads) {
  write("models/.incoming/0123/.pull.json", R"({"name": "n%2", "reference": "hf:a/b"})");
  write("models/.incoming/0123/m.partial");
  write("models/.incoming/copy-1/m.gguf");
  write("models/.incoming/4567/old.gguf");
  write("models/.trash/89/old.gguf");
  sweep_store();
  EXPECT_TRUE(fs::exists(home_ / "models/.incoming/0123/m.partial"));
  EXPECT_FALSE(fs::exists(home_ / "models/.incoming/copy-1"));
  EXPECT_FALSE(fs::exists(home_ / "models/.incoming/4567"));
  EXPECT_FALSE(fs::exists(home_ / "models/.trash"));
  ASSERT_EQ(list_leftovers().size(), 1U);
  EXPECT_EQ(list_leftovers()[0].reference, "hf:a/b");
  EXPECT_TRUE(list_store().empty());
}

}  // namespace
}  // namespace ingot
