#include "formats/hub_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/utf8.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

constexpr double kLongestDelay = 8;        // seconds; doubling stops here
constexpr double kLongestAskedWait = 120;  // a server that asks for more is refused
constexpr size_t kMaxListingBytes = size_t(64) << 20;
constexpr int kMaxPages = 1000;
constexpr std::string_view kNetworkHint =
    "check the network (HTTPS_PROXY, HF_ENDPOINT); a file that is already here goes into "
    "the store with: ingot pull FILE --as NAME";

void sleep_interruptibly(double seconds) {
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    throw_if_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

[[noreturn]] void fail_access(const HttpAnswer& answer, const HubSubject& subject,
                              const HubOptions& options) {
  const std::string& code = header(answer.home, "x-error-code");
  const std::string page = options.endpoint + "/" + subject.reference.repo;
  if (code == "DisabledRepo")
    fail("{}: the hub has disabled this repository (answer {})", subject.text(),
         answer.status);
  const bool gated = code == "GatedRepo";
  const std::string_view what =
      gated ? "gated repository" : "private, gated or not existing repository";
  if (options.token.empty())
    throw Error(fmt::format("{}: {}: the hub answers {} without a token", subject.text(),
                            what, answer.status),
                fmt::format("{}set HF_TOKEN to a token of {}/settings/tokens",
                            gated ? "accept the terms at " + page + ", then "
                                  : "check the name, or ",
                            options.endpoint));
  throw Error(
      fmt::format("{}: {}: the hub answers {}, the token given may not read it",
                  subject.text(), what, answer.status),
      fmt::format("accept the terms at {}, or set HF_TOKEN to a token that has access",
                  page));
}

[[noreturn]] void fail_not_found(const HttpAnswer& answer, const HubSubject& subject) {
  const std::string& code = header(answer.home, "x-error-code");
  const HubReference& reference = subject.reference;
  if (code == "EntryNotFound" || (code.empty() && !subject.file.empty()))
    fail("{}: no file '{}' in {} at {} (the hub answers {})", reference.text(),
         printable_text(subject.file), reference.repo, printable_text(reference.revision),
         answer.status);
  if (code == "RevisionNotFound")
    fail("{}: no revision '{}' in {} (the hub answers {})", reference.text(),
         printable_text(reference.revision), reference.repo, answer.status);
  fail("{}: no repository {}{} (the hub answers {})", reference.text(), reference.repo,
       reference.revision == "main" ? ""
                                    : fmt::format(", or no revision '{}' in it",
                                                  printable_text(reference.revision)),
       answer.status);
}

}  // namespace

void Patience::wait_or_fail(const std::string& why, const std::string& hint,
                            std::optional<double> asked_s) {
  ++n_failed_;
  if (n_failed_ >= n_tries_)
    throw Error(n_failed_ > 1 ? fmt::format("{} ({} tries)", why, n_failed_) : why, hint);
  const double wait_s = std::max(asked_s.value_or(0), asked_s ? 0 : delay_s_);
  if (wait_s > kLongestAskedWait)
    throw Error(fmt::format("{}, and asks to wait {:.0f} s, wanted at most {:.0f}", why,
                            wait_s, kLongestAskedWait),
                "pull again later: it goes on where it stopped");
  log_warning("{}; trying again in {:.1f} s ({} of {})", why, wait_s, n_failed_ + 1,
              n_tries_);
  sleep_interruptibly(wait_s);
  delay_s_ = std::min(delay_s_ * 2, kLongestDelay);
}

void Patience::made_progress() {
  n_failed_ = 0;
  delay_s_ = 1;
}

HubClient::HubClient(HubOptions options) : options_(std::move(options)) {}

HttpRequest HubClient::request(std::string_view path) const {
  HttpRequest request;
  request.url = options_.endpoint + std::string(path);
  request.token = options_.token;
  request.connect_timeout_s = options_.connect_timeout_s;
  request.idle_timeout_s = options_.idle_timeout_s;
  return request;
}

void HubClient::retry_or_fail(const HttpResult& result, const HubSubject& subject,
                              Patience& patience) {
  const HttpAnswer& answer = result.answer;
  if (result.outcome == HttpOutcome::unreachable) {
    const std::string why =
        fmt::format("{}: no answer: {}", subject.text(), result.detail);
    const std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - begun_;
    // A hub that never answered at all gets connect_timeout_s in all, not per try.
    if (!answered_ && waited.count() + 1 >= options_.connect_timeout_s)
      throw Error(why, std::string(kNetworkHint));
    patience.wait_or_fail(why, std::string(kNetworkHint), {});
    return;
  }
  answered_ = true;
  if (result.outcome == HttpOutcome::dropped) {
    patience.wait_or_fail(
        fmt::format("{}: the connection broke: {}", subject.text(), result.detail),
        "pull again: it goes on where it stopped", {});
    return;
  }
  if (is_retryable_status(answer.status)) {
    patience.wait_or_fail(fmt::format("{}: {} answers {}", subject.text(),
                                      url_origin(answer.last_url), answer.status),
                          "the server is busy or broken: pull again later",
                          retry_after_s(answer.last));
    return;
  }
  const bool at_home = url_origin(answer.last_url) == url_origin(options_.endpoint);
  if (at_home && (answer.status == 401 || answer.status == 403))
    fail_access(answer, subject, options_);
  if (at_home && (answer.status == 404 || answer.status == 410))
    fail_not_found(answer, subject);
  fail("{}: {} answers {}, wanted 200", subject.text(), url_origin(answer.last_url),
       answer.status);
}

std::string HubClient::text_with_retries(const HttpRequest& request,
                                         const HubSubject& subject, HttpAnswer& answer) {
  Patience patience(options_);
  while (true) {
    HttpText text = http_text(request, kMaxListingBytes);
    answer = text.result.answer;
    if (text.result.outcome == HttpOutcome::complete && answer.status == 200) {
      answered_ = true;
      return std::move(text.body);
    }
    retry_or_fail(text.result, subject, patience);
  }
}

HubListing HubClient::list(const HubReference& reference) {
  const HubSubject subject{reference, {}};
  const std::string path = "/api/models/" + reference.repo + "/revision/" +
                           percent_encode(reference.revision, Slashes::encode) +
                           "?blobs=true";
  HttpAnswer answer;
  bool has_files = false;
  HubListing listing = parse_model_info(text_with_retries(request(path), subject, answer),
                                        subject, &has_files);
  if (!has_files) add_tree(listing, reference);
  return listing;
}

void HubClient::add_tree(HubListing& listing, const HubReference& reference) {
  const HubSubject subject{reference, {}};
  const std::string home = url_origin(options_.endpoint);
  HttpRequest page = request("/api/models/" + reference.repo + "/tree/" + listing.commit +
                             "?recursive=true&expand=false");
  for (int n = 0; n < kMaxPages; ++n) {
    HttpAnswer answer;
    add_tree_page(listing, text_with_retries(page, subject, answer), subject);
    std::string next = next_page(answer.last);
    if (next.empty()) return;
    if (next.starts_with('/')) next.insert(0, home);
    if (url_origin(next) != home)
      fail("{}: the hub's file list goes on at {}, wanted the hub itself", subject.text(),
           url_origin(next));
    page.url = next;
  }
  fail("{}: the hub's file list has more than {} pages", subject.text(), kMaxPages);
}

std::string HubClient::resolve_path(const HubFile& file, const std::string& commit,
                                    const HubReference& reference) const {
  return "/" + reference.repo + "/resolve/" + commit + "/" +
         percent_encode(file.path, Slashes::keep);
}

void HubClient::complete(HubFile& file, const HubListing& listing,
                         const HubReference& reference) {
  if (file.size_bytes && (!file.sha256.empty() || !file.git_sha1.empty())) return;
  const HubSubject subject{reference, file.path};
  HttpRequest head = request(resolve_path(file, listing.commit, reference));
  head.method = HttpMethod::head;
  head.redirects = Redirects::own_origin;
  Patience patience(options_);
  while (true) {
    const HttpResult result =
        http_send(head, [](const HttpAnswer&, std::span<const char>) {});
    const int status = result.answer.status;
    if (result.outcome == HttpOutcome::complete) {
      if (status == 200 || (status >= 300 && status < 400)) {
        learn_from_headers(file, result.answer, subject.text());
        return;
      }
      if (status == 405 || status == 501) return;  // no HEAD here; the GET tells as well
    }
    retry_or_fail(result, subject, patience);
  }
}

}  // namespace ingot
