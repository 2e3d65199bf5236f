#include "text/merges.h"

#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace ingot {

MergeReader::MergeReader(BpeDefinition& model, std::string place)
    : model_(model), place_(std::move(place)) {}

int MergeReader::require(std::string_view token, size_t index) const {
  const auto id = model_.vocabulary.find(token);
  if (!id)
    fail("{}[{}]: \"{}\" is not in the vocabulary", place_, index, printable_text(token));
  return *id;
}

void MergeReader::add(std::string_view left, std::string_view right, size_t index) {
  const size_t prefix = model_.continuing_subword_prefix.size();
  if (right.size() < prefix)
    fail("{}[{}]: \"{}\" is shorter than continuing_subword_prefix", place_, index,
         printable_text(right));
  joined_ = left;
  joined_ += right.substr(prefix);
  model_.merges.push_back({require(left, index), require(right, index),
                           require(joined_, index), int(model_.merges.size())});
}

void MergeReader::add_line(std::string_view line, size_t index) {
  if (line.starts_with("#version")) return;
  const size_t space = line.find(' ');
  if (space == std::string_view::npos ||
      line.find(' ', space + 1) != std::string_view::npos)
    fail("{}[{}]: \"{}\", wanted two parts with one space between", place_, index,
         printable_text(line));
  add(line.substr(0, space), line.substr(space + 1), index);
}

void MergeReader::add_gguf(std::string_view line, size_t index) {
  const size_t space = line.find(' ', 1);
  if (space == std::string_view::npos)
    fail("{}[{}]: \"{}\", wanted two parts with a space between", place_, index,
         printable_text(line));
  add(line.substr(0, space), line.substr(space + 1), index);
}

}  // namespace ingot
