// `ingot pull REF`: from the hub, or a local file or directory, into the store.
#pragma once

#include <string>

namespace ingot {

struct PullOptions {
  std::string reference;  // hf:ORG/NAME[@REV][:FILE|:QUANT], a file or a directory
  std::string name;       // --as NAME; empty: chosen from the reference
  bool offline = false;   // --offline
  double connect_timeout_s = 10;  // --connect-timeout SECONDS
  int retries = 5;                // --retries N
  bool json = false;              // --json
};

// Prints the store name on standard output.  Returns the exit code; throws Error.
int run_pull(const PullOptions& options);

}  // namespace ingot
