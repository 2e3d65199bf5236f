// One HTTP GET or HEAD with redirects, over libcurl.  Redirects are followed here, not by
// libcurl, because the bearer token must stay with its origin and because the hub's own
// headers matter as much as those of the host that it sends us to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

enum class HttpMethod { get, head };
enum class Redirects { follow, own_origin };  // own_origin: others are an answer like any

using HttpHeaders = std::map<std::string, std::string, std::less<>>;  // lower-case names

struct HttpRequest {
  HttpMethod method = HttpMethod::get;
  Redirects redirects = Redirects::follow;
  std::string url;
  std::vector<std::string> headers;  // "Name: value", sent to every host
  std::string token;                 // sent to url's own origin alone
  double connect_timeout_s = 10;     // until the first header of an answer
  double idle_timeout_s = 10;        // between bytes after that
};

struct HttpAnswer {
  int status = 0;
  HttpHeaders home;      // headers of the last hop that the request's own origin answered
  HttpHeaders last;      // headers of the last hop; the same content when it was at home
  std::string last_url;  // where the last hop went
};

// How a request ended when there is no complete answer.
enum class HttpOutcome {
  complete,     // status and body arrived; the status may still be an error
  unreachable,  // no connection or no answer at all
  dropped,      // the connection broke, stalled, or ended before the body did
};
struct HttpResult {
  HttpOutcome outcome = HttpOutcome::unreachable;
  HttpAnswer answer;   // as far as it came
  std::string detail;  // for a message: libcurl's words; never a token or a query string
};

// Hears the body of the final answer (not of redirects) as it comes; may throw, which
// ends the transfer.  `answer` is complete but for the body.
using HttpSink =
    std::function<void(const HttpAnswer& answer, std::span<const char> bytes)>;

// Throws Error for what no retry helps: a redirect that may not be followed, a
// certificate that does not check out, Ctrl-C, and whatever `sink` throws.
HttpResult http_send(const HttpRequest& request, const HttpSink& sink);

// The body as a string: at most max_bytes, else Error.
struct HttpText {
  HttpResult result;
  std::string body;
};
HttpText http_text(const HttpRequest& request, size_t max_bytes);

// "https://host:port" in lower case with the default port left out; empty when `url` is
// not an absolute http or https address.
std::string url_origin(std::string_view url);
bool is_loopback_origin(std::string_view origin);
// Percent-encodes everything but unreserved characters; with `keep_slashes`, '/' too.
enum class Slashes { keep, encode };
std::string percent_encode(std::string_view text, Slashes slashes);

// Seconds the answer asks to wait: Retry-After (seconds or a date), else RateLimit's t
// where r is 0.
std::optional<double> retry_after_s(const HttpHeaders& headers);
bool is_retryable_status(int status);  // 408, 429, 500, 502, 503, 504

}  // namespace ingot
