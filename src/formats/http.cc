#include "formats/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <exception>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "base/interrupt.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMaxRedirects = 10;
constexpr size_t kMaxHeaderBytes = size_t(256) << 10;  // of one hop
constexpr int kPollMs = 100;  // how soon Ctrl-C and a timeout are noticed

struct CurlDelete {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Easy = std::unique_ptr<CURL, CurlDelete>;
using Url = std::unique_ptr<CURLU, CurlDelete>;

struct MultiDelete {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
using Multi = std::unique_ptr<CURLM, MultiDelete>;

class HeaderList {
 public:
  void add(const std::string& line) {
    curl_slist* longer = curl_slist_append(list_.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    static_cast<void>(list_.release());
    list_.reset(longer);
  }
  curl_slist* get() const { return list_.get(); }

 private:
  std::unique_ptr<curl_slist, CurlDelete> list_;
};

// One hop of a request: what the callbacks write to.
struct Hop {
  CURL* easy = nullptr;
  bool at_home = false;  // the origin that the request was made to
  HttpHeaders headers;
  size_t header_bytes = 0;
  bool answered = false;
  Clock::time_point last_byte = Clock::now();
  HttpAnswer* answer = nullptr;
  const HttpSink* sink = nullptr;
  std::exception_ptr thrown;  // by the sink: carried over libcurl's C frames
};

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 ||
         status == 308;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlank) - begin + 1));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

size_t on_header(char* data, size_t size, size_t count, void* context) {
  Hop& hop = *static_cast<Hop*>(context);
  const std::string_view line(data, size * count);
  hop.last_byte = Clock::now();
  hop.header_bytes += line.size();
  if (hop.header_bytes > kMaxHeaderBytes) return 0;
  if (line.starts_with("HTTP/")) {  // also after an interim 1xx answer
    hop.headers.clear();
    hop.answered = true;
    return line.size();
  }
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos)
    hop.headers[lower(trimmed(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
  return line.size();
}

size_t on_body(char* data, size_t size, size_t count, void* context) {
  Hop& hop = *static_cast<Hop*>(context);
  hop.last_byte = Clock::now();
  if (hop.answer->status == 0) {  // the first bytes: all headers have been seen
    long status = 0;
    curl_easy_getinfo(hop.easy, CURLINFO_RESPONSE_CODE, &status);
    hop.answer->status = int(status);
    hop.answer->last = hop.headers;
    if (hop.at_home) hop.answer->home = hop.headers;
  }
  if (is_redirect(hop.answer->status)) return size * count;
  try {
    (*hop.sink)(*hop.answer, std::span<const char>(data, size * count));
  } catch (...) {
    hop.thrown = std::current_exception();
    return 0;
  }
  return size * count;
}

void set_options(CURL* easy, const HttpRequest& request, const std::string& url,
                 const HeaderList& headers) {
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // do not wait for a hanging resolver
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   std::max(1L, long(request.connect_timeout_s * 1000)));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "ingot/0.1");
  if (request.method == HttpMethod::head) curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  // No proxy can reach this machine's own loopback.
  if (is_loopback_origin(url_origin(url))) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
}

// Runs the transfer with our own clock: libcurl's timeouts do not cover "connected, but
// no answer", and Ctrl-C must be noticed at once.
CURLcode perform(CURL* easy, const HttpRequest& request, Hop& hop, bool* timed_out) {
  const Multi multi(curl_multi_init());
  if (multi == nullptr) throw std::bad_alloc();
  CHECK(curl_multi_add_handle(multi.get(), easy) == CURLM_OK);
  CURLcode code = CURLE_OK;
  int running = 1;
  while (running > 0) {
    if (curl_multi_perform(multi.get(), &running) != CURLM_OK) break;
    if (running == 0) break;
    const double limit_s =
        hop.answered ? request.idle_timeout_s : request.connect_timeout_s;
    const double idle_s =
        std::chrono::duration<double>(Clock::now() - hop.last_byte).count();
    *timed_out = idle_s > limit_s;
    if (interrupted() || *timed_out) break;
    curl_multi_poll(multi.get(), nullptr, 0, kPollMs, nullptr);
  }
  int queued = 0;
  if (const CURLMsg* message = curl_multi_info_read(multi.get(), &queued))
    code = message->data.result;
  else
    code = CURLE_OPERATION_TIMEDOUT;
  curl_multi_remove_handle(multi.get(), easy);
  return code;
}

bool is_certificate_fault(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR;
}

// Sends one hop; fills answer.status and answer.last.
HttpOutcome send_hop(const HttpRequest& request, const std::string& url, bool at_home,
                     const HttpSink& sink, HttpAnswer& answer, std::string& detail) {
  const Easy easy(curl_easy_init());
  if (easy == nullptr) throw std::bad_alloc();
  HeaderList headers;
  headers.add("Accept-Encoding: identity");
  for (const std::string& line : request.headers) headers.add(line);
  if (at_home && !request.token.empty())
    headers.add("Authorization: Bearer " + request.token);
  set_options(easy.get(), request, url, headers);

  Hop hop;
  hop.easy = easy.get();
  hop.at_home = at_home;
  hop.answer = &answer;
  hop.sink = &sink;
  answer.status = 0;
  answer.last.clear();
  curl_easy_setopt(easy.get(), CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy.get(), CURLOPT_HEADERDATA, &hop);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &hop);

  bool timed_out = false;
  const CURLcode code = perform(easy.get(), request, hop, &timed_out);
  if (hop.thrown) std::rethrow_exception(hop.thrown);
  throw_if_interrupted();
  const std::string origin = url_origin(url);
  if (is_certificate_fault(code))
    fail("{}: {}, wanted a certificate that this machine trusts", origin,
         curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = int(status);
  answer.last = hop.headers;
  if (at_home) answer.home = hop.headers;
  if (code == CURLE_OK) return HttpOutcome::complete;
  detail = fmt::format("{}: {}", origin,
                       timed_out ? "no answer in time" : curl_easy_strerror(code));
  return hop.answered ? HttpOutcome::dropped : HttpOutcome::unreachable;
}

// `location` relative to `url`.  Throws Error when it may not be followed.
std::string redirect_target(const std::string& url, const std::string& location) {
  const Url parsed(curl_url());
  char* joined = nullptr;
  std::string target;
  if (parsed != nullptr &&
      curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_set(parsed.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parsed.get(), CURLUPART_URL, &joined, 0) == CURLUE_OK) {
    target = joined;
    curl_free(joined);
  }
  const std::string from = url_origin(url);
  const std::string to = url_origin(target);
  if (to.empty())
    fail("{}: redirects to something that is no http or https address", from);
  const bool plain_to_plain = from.starts_with("http://") && is_loopback_origin(to);
  if (!to.starts_with("https://") && !plain_to_plain)
    fail("{}: redirects to {}, wanted https", from, to);
  return target;
}

}  // namespace

HttpResult http_send(const HttpRequest& request, const HttpSink& sink) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (global != CURLE_OK) fail("libcurl: {}", curl_easy_strerror(global));
  throw_if_interrupted();
  HttpResult result;
  const std::string home = url_origin(request.url);
  std::string url = request.url;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    const bool at_home = url_origin(url) == home;
    result.answer.last_url = url;
    result.outcome = send_hop(request, url, at_home, sink, result.answer, result.detail);
    if (result.outcome != HttpOutcome::complete) return result;
    const auto location = result.answer.last.find("location");
    if (!is_redirect(result.answer.status) || location == result.answer.last.end())
      return result;
    url = redirect_target(url, location->second);
    if (request.redirects == Redirects::own_origin && url_origin(url) != home)
      return result;
  }
  fail("{}: more than {} redirects", home, kMaxRedirects);
}

HttpText http_text(const HttpRequest& request, size_t max_bytes) {
  HttpText text;
  text.result =
      http_send(request, [&](const HttpAnswer& answer, std::span<const char> part) {
        if (text.body.size() + part.size() > max_bytes)
          fail("{}: answer of more than {} bytes, the most accepted here",
               url_origin(answer.last_url), max_bytes);
        text.body.append(part.data(), part.size());
      });
  return text;
}

std::string url_origin(std::string_view url) {
  const Url parsed(curl_url());
  if (parsed == nullptr ||
      curl_url_set(parsed.get(), CURLUPART_URL, std::string(url).c_str(), 0) != CURLUE_OK)
    return {};
  char* part = nullptr;
  if (curl_url_get(parsed.get(), CURLUPART_SCHEME, &part, 0) != CURLUE_OK) return {};
  std::string origin = lower(part) + "://";
  curl_free(part);
  if (origin != "http://" && origin != "https://") return {};
  if (curl_url_get(parsed.get(), CURLUPART_HOST, &part, 0) != CURLUE_OK) return {};
  origin += lower(part);
  curl_free(part);
  if (curl_url_get(parsed.get(), CURLUPART_PORT, &part, CURLU_NO_DEFAULT_PORT) ==
      CURLUE_OK) {
    origin += ":" + std::string(part);
    curl_free(part);
  }
  return origin;
}

bool is_loopback_origin(std::string_view origin) {
  for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"}) {
    for (const std::string_view scheme : {"http://", "https://"}) {
      const std::string start = std::string(scheme) + std::string(host);
      if (origin == start || origin.starts_with(start + ":")) return true;
    }
  }
  return false;
}

std::string percent_encode(std::string_view text, Slashes slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
                       c == '~' || (c == '/' && slashes == Slashes::keep);
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

namespace {

std::optional<double> number_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  unsigned value = 0;
  const std::string_view digits = text.substr(at + key.size());
  const auto parsed =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc()) return {};
  return double(value);
}

}  // namespace

std::optional<double> retry_after_s(const HttpHeaders& headers) {
  if (const auto found = headers.find("retry-after"); found != headers.end()) {
    if (const auto seconds = number_after(found->second, "");
        seconds && found->second.find_first_not_of("0123456789") == std::string::npos)
      return seconds;
    const std::time_t when = curl_getdate(found->second.c_str(), nullptr);
    if (when != -1) return std::max(0.0, std::difftime(when, std::time(nullptr)));
  }
  if (const auto found = headers.find("ratelimit"); found != headers.end()) {
    if (number_after(found->second, "r=") == 0.0)
      return number_after(found->second, "t=");
  }
  return {};
}

bool is_retryable_status(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

}  // namespace ingot
