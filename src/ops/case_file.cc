#include "ops/case_file.h"

#include "base/check.h"
#include "base/file.h"

namespace ingot {

bool Case::has(const std::string& tensor) const {
  return file_.header_.contains(name_ + "." + tensor);
}

std::vector<int64_t> Case::shape(const std::string& tensor) const {
  return file_.header_.at(name_ + "." + tensor).at("shape").get<std::vector<int64_t>>();
}

std::string Case::stored_type(const std::string& tensor) const {
  return file_.header_.at(name_ + "." + tensor).at("dtype").get<std::string>();
}

std::span<const std::byte> Case::bytes(const std::string& tensor) const {
  const nlohmann::json& ends = file_.header_.at(name_ + "." + tensor).at("data_offsets");
  const size_t begin = ends.at(0).get<size_t>();
  const size_t end = ends.at(1).get<size_t>();
  CHECK(begin <= end && file_.data_at_ + end <= file_.bytes_.size());
  return std::as_bytes(std::span(file_.bytes_))
      .subspan(file_.data_at_ + begin, end - begin);
}

CaseFile::CaseFile(const std::string& op)
    : bytes_(read_file(std::string(INGOT_OP_CASES) + "/" + op + ".safetensors")) {
  uint64_t n = 0;
  CHECK(bytes_.size() >= sizeof n);
  std::memcpy(&n, bytes_.data(), sizeof n);
  CHECK(n <= bytes_.size() - sizeof n);
  header_ = nlohmann::json::parse(std::string_view(bytes_).substr(sizeof n, n));
  data_at_ = sizeof n + n;
}

std::vector<Case> CaseFile::cases() const {
  std::vector<Case> all;
  for (const auto& [name, params] : header_.at("__metadata__").items())
    if (params.is_string() && params.get<std::string>().starts_with("{"))
      all.emplace_back(*this, name, nlohmann::json::parse(params.get<std::string>()));
  return all;
}

}  // namespace ingot
