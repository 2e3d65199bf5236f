// `ingot list` and `ingot rm`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/store.h"

namespace ingot {

struct ListOptions {
  bool json = false;  // --json
};
int run_list(const ListOptions& options);

struct RemoveOptions {
  std::vector<std::string> names;
};
int run_rm(const RemoveOptions& options);

// One model as `list --json` prints it.
nlohmann::json entry_json(const StoreEntry& entry);
std::string printable_name(const StoreEntry& entry);

}  // namespace ingot
