// Talking to one hub: requests with patience, the listing of a repository, and the words
// for what the hub refuses.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "formats/http.h"
#include "formats/hub.h"

namespace ingot {

// What a request is about, for messages.
struct HubSubject {
  HubReference reference;
  std::string file;  // empty: the repository itself
  std::string text() const;
};

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

// "quoted", W/"weak" -> the bare text; empty for weak ones when `strong_only`.
enum class EtagKind { any, strong_only };
std::string bare_etag(std::string_view etag, EtagKind kind);
bool is_hex(std::string_view text, size_t n_digits);
std::optional<uint64_t> parse_u64(std::string_view text);
const std::string& header(const HttpHeaders& headers, std::string_view name);  // or empty

// Takes size and hash from an answer of the hub's own host (X-Linked-Size, X-Linked-Etag
// or ETag) where `file` has none; throws Error where they contradict each other.
void learn_from_headers(HubFile& file, const HttpAnswer& answer,
                        std::string_view subject);

}  // namespace ingot
