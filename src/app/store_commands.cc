#include "app/store_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

using nlohmann::json;

// Columns on a terminal, so that names beyond ASCII line up too: code points are near
// enough.
size_t width(std::string_view text) {
  size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

std::string padded(const std::string& text, size_t columns) {
  return text + std::string(columns - std::min(columns, width(text)), ' ');
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> columns(rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      columns[i] = std::max(columns[i], width(row[i]));
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? row[i] : padded(row[i], columns[i]) + "  ";
    fmt::print("{}\n", line);
  }
}

std::string format_of(const StoreEntry& entry) {
  return printable_text(entry.quant.empty() ? entry.format
                                            : entry.format + " " + entry.quant);
}

void print_json(const std::vector<StoreEntry>& entries,
                const std::vector<StoreLeftover>& leftovers) {
  json document = {{"store", printable(store_directory())},
                   {"models", json::array()},
                   {"unfinished", json::array()}};
  for (const StoreEntry& entry : entries) document["models"].push_back(entry_json(entry));
  for (const StoreLeftover& leftover : leftovers)
    document["unfinished"].push_back({{"name", printable_text(leftover.name)},
                                      {"reference", printable_text(leftover.reference)},
                                      {"size_bytes", leftover.size_bytes}});
  fmt::print("{}\n", document.dump(2));
}

}  // namespace

json entry_json(const StoreEntry& entry) {
  return {{"name", printable_text(entry.name)},
          {"path", printable(entry.path)},
          {"format", printable_text(entry.format)},
          {"quant", printable_text(entry.quant)},
          {"size_bytes", entry.size_bytes},
          {"source", printable_text(entry.source)},
          {"reference", printable_text(entry.reference)},
          {"added", printable_text(entry.added)}};
}

std::string printable_name(const StoreEntry& entry) { return printable_text(entry.name); }

int run_list(const ListOptions& options) {
  const std::vector<StoreEntry> entries = list_store();
  const std::vector<StoreLeftover> leftovers = list_leftovers();
  if (options.json) {
    print_json(entries, leftovers);
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "FORMAT", "SIZE", "ADDED", "SOURCE"}};
  for (const StoreEntry& entry : entries)
    rows.push_back({printable_text(entry.name), format_of(entry),
                    human_bytes(entry.size_bytes), entry.added.substr(0, 10),
                    printable_text(entry.source)});
  print_table(rows);
  for (const StoreLeftover& leftover : leftovers)
    fmt::print(
        stderr,
        "unfinished: {} ({} so far): `ingot pull {}` goes on, `ingot rm {}` removes it\n",
        printable_text(leftover.name), human_bytes(leftover.size_bytes),
        printable_text(leftover.reference), printable_text(leftover.name));
  return 0;
}

int run_rm(const RemoveOptions& options) {
  if (options.names.empty())
    fail_usage("rm: no name, wanted one that `ingot list` shows");
  for (const std::string& name : options.names) {
    const uint64_t n_bytes = remove_from_store(name);
    fmt::print(stderr, "{}: removed, {} freed\n", printable_text(name),
               human_bytes(n_bytes));
  }
  return 0;
}

}  // namespace ingot
