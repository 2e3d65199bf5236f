// Talking to one hub: requests with patience, and the words for what the hub refuses.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "formats/http.h"
#include "formats/hub.h"
#include "formats/hub_listing.h"

namespace ingot {

// How often to try again, and how long to wait in between (formats.md HB-8).
class Patience {
 public:
  explicit Patience(const HubOptions& options) : n_tries_(options.retries) {}
  // Sleeps before the next try; throws Error `why` when this was the last one, when the
  // server asks for an unreasonable wait, or on Ctrl-C.
  void wait_or_fail(const std::string& why, const std::string& hint,
                    std::optional<double> asked_s);
  void made_progress();  // tries count from zero again

 private:
  int n_tries_;
  int n_failed_ = 0;
  double delay_s_ = 1;
};

class HubClient {
 public:
  explicit HubClient(HubOptions options);

  const HubOptions& options() const { return options_; }
  // A request to `path` ("/api/models/a/b") with the token; the rest is the caller's.
  HttpRequest request(std::string_view path) const;

  // The commit and the files of a repository.
  HubListing list(const HubReference& reference);
  // Fills in size and hash where the listing has none, by HEAD.
  void complete(HubFile& file, const HubListing& listing, const HubReference& reference);
  std::string resolve_path(const HubFile& file, const std::string& commit,
                           const HubReference& reference) const;

  // Decides about a result that is not the wanted answer: waits and returns when trying
  // again makes sense, throws Error otherwise.
  void retry_or_fail(const HttpResult& result, const HubSubject& subject,
                     Patience& patience);
  void heard_answer() { answered_ = true; }

 private:
  std::string text_with_retries(const HttpRequest& request, const HubSubject& subject,
                                HttpAnswer& answer);
  void add_tree(HubListing& listing, const HubReference& reference);

  HubOptions options_;
  bool answered_ = false;  // the hub has answered something since this object began
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace ingot
