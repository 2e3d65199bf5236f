#include "formats/hub_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/utf8.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

using nlohmann::json;

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

// formats.md HB-2.
bool is_safe_path(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.find('\\') != std::string::npos ||
      path.find('\0') != std::string::npos || !is_valid_utf8(path))
    return false;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = std::string_view(path).substr(begin, end - begin);
    if (segment.empty() || segment == "." || segment == ".." || segment.size() > 250)
      return false;
    begin = end + 1;
  }
  return path.size() < 2 || path[1] != ':';  // a drive letter
}

std::string text_field(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

std::optional<uint64_t> size_field(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return {};
  return found->get<uint64_t>();
}

// One entry of "siblings" (rfilename, blobId, lfs.sha256) or of a tree (path, oid,
// lfs.oid).
HubFile parse_file(const json& entry, const char* name_key, const char* git_key,
                   const char* lfs_key, const HubSubject& subject) {
  if (!entry.is_object())
    fail("{}: the hub's listing has a file that is no object", subject.text());
  HubFile file;
  file.path = text_field(entry, name_key);
  if (!is_safe_path(file.path))
    fail("{}: the hub lists the file '{}', wanted a plain relative path", subject.text(),
         printable_text(file.path));
  file.size_bytes = size_field(entry, "size");
  file.git_sha1 = lower_case(text_field(entry, git_key));
  if (!is_hex(file.git_sha1, 40)) file.git_sha1.clear();
  const auto lfs = entry.find("lfs");
  if (lfs != entry.end() && lfs->is_object()) {
    file.sha256 = lower_case(text_field(*lfs, lfs_key));
    if (!is_hex(file.sha256, 64)) file.sha256.clear();
    file.git_sha1.clear();  // that one is the pointer's
    if (const auto size = size_field(*lfs, "size")) file.size_bytes = size;
  }
  return file;
}

// The address in `Link: <...>; rel="next"`; empty when there is none.
std::string next_page(const HttpHeaders& headers) {
  const std::string& link = header(headers, "link");
  const size_t rel = link.find("rel=\"next\"");
  if (rel == std::string::npos) return {};
  const size_t begin = link.rfind('<', rel);
  const size_t end = link.find('>', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos || end > rel) return {};
  return link.substr(begin + 1, end - begin - 1);
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

std::string HubSubject::text() const {
  return file.empty() ? printable_text(reference.text())
                      : fmt::format("hf:{}/{}", reference.repo, printable_text(file));
}

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
  std::string path = "/api/models/" + reference.repo + "/revision/" +
                     percent_encode(reference.revision, Slashes::encode) + "?blobs=true";
  HttpAnswer answer;
  const json info =
      json::parse(text_with_retries(request(path), subject, answer), nullptr, false);
  if (!info.is_object())
    fail("{}: the hub's answer is no JSON object, wanted the repository's listing",
         subject.text());
  HubListing listing;
  listing.commit = lower_case(text_field(info, "sha"));
  if (!is_hex(listing.commit, 40))
    fail("{}: the hub's listing has sha '{}', wanted a commit of 40 hex digits",
         subject.text(), printable_text(listing.commit));
  const auto siblings = info.find("siblings");
  if (siblings == info.end() || !siblings->is_array()) {
    add_tree(listing, reference);
    return listing;
  }
  for (const json& entry : *siblings)
    listing.files.push_back(parse_file(entry, "rfilename", "blobId", "sha256", subject));
  return listing;
}

void HubClient::add_tree(HubListing& listing, const HubReference& reference) {
  const HubSubject subject{reference, {}};
  HttpRequest page = request("/api/models/" + reference.repo + "/tree/" + listing.commit +
                             "?recursive=true&expand=false");
  for (int n = 0; n < kMaxPages; ++n) {
    HttpAnswer answer;
    const json entries =
        json::parse(text_with_retries(page, subject, answer), nullptr, false);
    if (!entries.is_array())
      fail("{}: the hub's file list is no JSON array", subject.text());
    for (const json& entry : entries) {
      if (entry.is_object() && text_field(entry, "type") == "directory") continue;
      listing.files.push_back(parse_file(entry, "path", "oid", "oid", subject));
    }
    std::string next = next_page(answer.last);
    if (next.empty()) return;
    if (next.starts_with('/')) next.insert(0, url_origin(options_.endpoint));
    if (url_origin(next) != url_origin(options_.endpoint))
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

std::string bare_etag(std::string_view etag, EtagKind kind) {
  if (etag.starts_with("W/")) {
    if (kind == EtagKind::strong_only) return {};
    etag.remove_prefix(2);
  }
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
    etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

bool is_hex(std::string_view text, size_t n_digits) {
  return text.size() == n_digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<uint64_t> parse_u64(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    return {};
  return value;
}

const std::string& header(const HttpHeaders& headers, std::string_view name) {
  static const std::string none;
  const auto found = headers.find(name);
  return found == headers.end() ? none : found->second;
}

void learn_from_headers(HubFile& file, const HttpAnswer& answer,
                        std::string_view subject) {
  const HttpHeaders& home = answer.home;
  const std::string& linked = header(home, "x-linked-etag");
  const std::string etag = lower_case(
      bare_etag(linked.empty() ? header(home, "etag") : linked, EtagKind::any));
  const bool redirects = answer.status >= 300 && answer.status < 400;
  std::optional<uint64_t> size = parse_u64(header(home, "x-linked-size"));
  if (!size && !redirects && answer.status == 200)
    size = parse_u64(header(answer.last, "content-length"));
  if (size && file.size_bytes && *size != *file.size_bytes)
    fail("{}: {} says {} bytes, the listing {}", subject, url_origin(answer.last_url),
         *size, *file.size_bytes);
  if (size) file.size_bytes = size;
  if (is_hex(etag, 64)) {
    if (!file.sha256.empty() && file.sha256 != etag)
      fail("{}: the hub names two SHA-256 for it, {} and {}", subject, file.sha256, etag);
    file.sha256 = etag;
    file.git_sha1.clear();
  } else if (is_hex(etag, 40) && file.sha256.empty() && file.git_sha1.empty()) {
    file.git_sha1 = etag;
  }
}

}  // namespace ingot
