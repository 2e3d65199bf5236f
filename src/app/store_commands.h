// `ingot list` and `ingot rm`.
#pragma once

#include <string>
#include <vector>

namespace ingot {

struct ListOptions {
  bool json = false;  // --json
};
int run_list(const ListOptions& options);

struct RemoveOptions {
  std::vector<std::string> names;
};
int run_rm(const RemoveOptions& options);

}  // namespace ingot
