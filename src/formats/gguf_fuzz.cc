// Fuzz target: parse_gguf, the checks of its metadata, and the first row of each tensor
// that it lets through.  The mutator walks the file as a parser would and changes one
// field, or copies or drops one record and mends the counts.
#include "base/check.h"
#include "formats/check_values.h"
#include "formats/checkpoint.h"
#include "formats/fuzz_target.h"
#include "formats/gguf_check.h"
#include "formats/gguf_types.h"
#include "tensor/dequantize.h"

namespace ingot {
namespace {

// Where things are in a well-formed input, as far as it is one.
struct Field {
  size_t at;
  size_t width;  // 4 or 8
};
struct Record {
  size_t begin;
  size_t end;
};
struct Map {
  std::vector<Field> fields;
  std::vector<Record> pairs;
  std::vector<Record> infos;
};

class Walker {
 public:
  explicit Walker(const std::string& file) : file_(file) {}

  Map walk() {
    field(4);  // magic
    field(4);
    const uint64_t n_infos = field(8);
    const uint64_t n_pairs = field(8);
    for (uint64_t i = 0; i < n_pairs && ok_; ++i) record(map_.pairs, &Walker::pair);
    for (uint64_t i = 0; i < n_infos && ok_; ++i) record(map_.infos, &Walker::info);
    return map_;
  }

 private:
  void record(std::vector<Record>& list, void (Walker::*read)()) {
    const size_t begin = at_;
    (this->*read)();
    if (ok_) list.push_back({begin, at_});
  }
  uint64_t field(size_t width) {
    if (!ok_ || file_.size() - at_ < width) return ok_ = false, 0;
    uint64_t value = 0;
    std::memcpy(&value, file_.data() + at_, width);
    map_.fields.push_back({at_, width});
    at_ += width;
    return value;
  }
  void skip(uint64_t n) {
    if (!ok_ || n > file_.size() - at_)
      ok_ = false;
    else
      at_ += n;
  }
  void string() { skip(field(8)); }
  void value(uint64_t type) {
    if (type >= kGgufTypeCount)
      ok_ = false;
    else if (type == uint64_t(GgufType::string))
      string();
    else if (type != uint64_t(GgufType::array))
      skip(least_bytes(GgufType(type)));
    else
      array();
  }
  void array() {
    const uint64_t type = field(4);
    const uint64_t n = field(8);
    if (type == uint64_t(GgufType::array)) ok_ = false;
    for (uint64_t i = 0; i < n && ok_; ++i) value(type);
  }
  void pair() {
    string();
    value(field(4));
  }
  void info() {
    string();
    const uint64_t rank = field(4);
    if (rank > 8) ok_ = false;
    for (uint64_t i = 0; i < rank && ok_; ++i) field(8);
    field(4);
    field(8);
  }

  const std::string& file_;
  size_t at_ = 0;
  bool ok_ = true;
  Map map_;
};

void put(std::string& file, Field field, uint64_t value) {
  std::memcpy(file.data() + field.at, &value, field.width);
}

void change_field(std::string& file, const Map& map, FuzzRandom& random) {
  if (map.fields.empty()) return;
  const Field field = map.fields[random.below(map.fields.size())];
  uint64_t old = 0;
  std::memcpy(&old, file.data() + field.at, field.width);
  if (random.one_in(3)) {  // another field's value
    const Field other = map.fields[random.below(map.fields.size())];
    std::memcpy(&old, file.data() + other.at, other.width);
    put(file, field, old);
  } else if (field.width == 4 && random.one_in(2)) {
    put(file, field, random.below(44));  // a type, a rank
  } else {
    put(file, field, edge_number(random, old, file.size() - field.at - field.width));
  }
}

// Copies or drops a record; the count at `count_at` is mended, and so is the padding
// before the data, so that the rest stays a file.
void change_records(std::string& file, const Map& map, FuzzRandom& random) {
  const bool infos = random.one_in(2);
  const std::vector<Record>& list = infos ? map.infos : map.pairs;
  if (list.empty() || map.fields.size() < 4) return;
  const Record r = list[random.below(list.size())];
  const size_t header_end = map.infos.empty() ? list.back().end : map.infos.back().end;
  const size_t old_pad = (32 - header_end % 32) % 32;
  const std::string bytes = file.substr(r.begin, r.end - r.begin);
  const bool drop = random.one_in(2);
  std::string changed = file.substr(0, header_end);
  if (drop)
    changed.erase(r.begin, bytes.size());
  else
    changed.insert(list[random.below(list.size())].begin, bytes);
  changed.resize((changed.size() + 31) / 32 * 32);
  if (header_end + old_pad < file.size()) changed += file.substr(header_end + old_pad);
  const uint64_t count = list.size() + (drop ? ~uint64_t(0) : 1);
  std::memcpy(changed.data() + (infos ? 8 : 16), &count, 8);
  file = std::move(changed);
}

std::string mutate(std::string file, FuzzRandom& random, size_t max_size) {
  if (random.one_in(6)) {
    mutate_bytes(file, max_size);
    return file;
  }
  for (size_t i = 0, changes = 1 + random.below(2); i < changes; ++i) {
    const Map map = Walker(file).walk();
    if (random.one_in(3))
      change_records(file, map, random);
    else
      change_field(file, map, random);
  }
  if (random.one_in(8)) file.resize(random.below(file.size() + 65), '\x11');
  return file;
}

void check_accepted(const GgufFile& parsed, std::span<const std::byte> file) {
  Checkpoint checkpoint;
  checkpoint.container = Container::gguf;
  checkpoint.metadata = parsed.metadata;
  const std::byte* end = file.data();
  for (const GgufTensor& t : parsed.tensors) {
    CHECK(t.view.bytes.data() >= end);
    end = t.view.bytes.data() + t.view.bytes.size();
    CHECK(end <= file.data() + file.size());
    CHECK(checkpoint.tensors.try_emplace(t.name, StoredTensor{t.view}).second);
    const auto n_cols = uint64_t(t.view.cols());
    CHECK(uint64_t(t.view.rows()) * *row_bytes(t.view.dtype, n_cols) ==
          t.view.bytes.size());
    if (!can_dequantize(t.view.dtype)) continue;
    std::vector<float> row(n_cols);
    dequantize_row(t.view.dtype, t.view.bytes.data(), row);
  }
  check_gguf_model(checkpoint, "fuzz");
  for (const auto& [name, tensor] : checkpoint.tensors) check_values(name, tensor);
}

}  // namespace
}  // namespace ingot

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return ingot::mutate_input(data, size, max_size, seed, ingot::mutate);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return ingot::try_input(data, size, [](std::span<const std::byte> file) {
    ingot::check_accepted(ingot::parse_gguf(file, "fuzz"), file);
  });
}
