// The cases that the NumPy reference wrote for an op (reference/README.md).
#pragma once

#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "ops/ops_testing.h"

namespace ingot {

class CaseFile;

// One case: its tensors by name, and its parameters.
class Case {
 public:
  Case(const CaseFile& file, std::string name, nlohmann::json params)
      : file_(file), name_(std::move(name)), params_(std::move(params)) {}
  const std::string& name() const { return name_; }
  bool has(const std::string& tensor) const;
  std::vector<int64_t> shape(const std::string& tensor) const;
  int dim(const std::string& tensor, size_t axis) const {
    return int(shape(tensor).at(axis));
  }
  std::string stored_type(const std::string& tensor) const;  // "F32", "U8", ...
  std::span<const std::byte> bytes(const std::string& tensor) const;
  template <typename T>
  std::vector<T> values(const std::string& tensor) const {
    const std::span<const std::byte> from = bytes(tensor);
    std::vector<T> to(from.size() / sizeof(T));
    if (!from.empty()) std::memcpy(to.data(), from.data(), to.size() * sizeof(T));
    return to;
  }
  std::vector<float> floats(const std::string& tensor) const {
    return values<float>(tensor);
  }
  template <typename T>
  T param(const std::string& key) const {
    return params_.at(key).get<T>();
  }
  template <typename T>
  T param(const std::string& key, T otherwise) const {
    return params_.value(key, otherwise);
  }

 private:
  const CaseFile& file_;
  std::string name_;
  nlohmann::json params_;
};

class CaseFile {
 public:
  explicit CaseFile(const std::string& op);
  std::vector<Case> cases() const;

 private:
  friend class Case;
  std::string bytes_;
  nlohmann::json header_;
  size_t data_at_ = 0;
};

// Names the case in the messages of the tests inside.
// NOLINTBEGIN(bugprone-macro-parentheses): `one` is a name to declare
#define INGOT_FOR_CASES(op_name, one)  \
  const CaseFile file(op_name);        \
  ASSERT_FALSE(file.cases().empty());  \
  for (const Case& one : file.cases()) \
    if (SCOPED_TRACE(one.name()); true)
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace ingot
