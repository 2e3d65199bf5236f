#include "app/pull.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/store_commands.h"
#include "base/error.h"
#include "formats/hub.h"

namespace ingot {
namespace {

StoreEntry pull(const PullOptions& options) {
  if (!is_hub_reference(options.reference))
    return pull_local(options.reference, options.name);
  HubOptions hub = hub_options_from_environment();
  hub.offline = hub.offline || options.offline;
  hub.connect_timeout_s = options.connect_timeout_s;
  hub.retries = options.retries;
  return pull_from_hub(parse_hub_reference(options.reference), options.name, hub);
}

}  // namespace

int run_pull(const PullOptions& options) {
  if (options.reference.empty())
    fail_usage("pull: empty reference, wanted hf:ORG/NAME, a file or a directory");
  if (!(options.connect_timeout_s > 0 && options.connect_timeout_s <= 3600))
    fail_usage("--connect-timeout: {}, wanted seconds above 0 and at most 3600",
               options.connect_timeout_s);
  if (options.retries < 1 || options.retries > 1000)
    fail_usage("--retries: {}, wanted 1 to 1000", options.retries);
  const StoreEntry entry = pull(options);
  if (options.json)
    fmt::print("{}\n", entry_json(entry).dump(2));
  else
    fmt::print("{}\n", printable_name(entry));
  return 0;
}

}  // namespace ingot
