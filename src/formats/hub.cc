#include "formats/hub.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "formats/http.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

constexpr std::string_view kScheme = "hf:";
constexpr std::string_view kDefaultRevision = "main";
constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kMaxTokenBytes = 4096;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_on(const char* name) {
  const std::string value = lower_case(variable(name));
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

bool is_repo_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         c == '_' || c == '.' || c == '-';
}

// formats.md HB-1 for one segment; empty when it is fine, else what is wrong.
std::string_view segment_fault(std::string_view segment) {
  if (segment.empty()) return "is empty";
  for (const char c : segment)
    if (!is_repo_letter(c))
      return "has a character other than letters, digits, '_', '.', '-'";
  if (segment.find("..") != std::string_view::npos) return "has \"..\"";
  if (segment.find("--") != std::string_view::npos) return "has \"--\"";
  const char first = segment.front();
  const char last = segment.back();
  if (first == '-' || first == '.' || last == '-' || last == '.')
    return "begins or ends with '-' or '.'";
  if (segment.ends_with(".git")) return "ends in \".git\"";
  return {};
}

void check_repo(std::string_view repo) {
  constexpr size_t kMaxRepoBytes = 96;
  const std::string shown = printable_text(repo);
  if (repo.size() > kMaxRepoBytes)
    fail_usage("hf:{}: repository of {} bytes, wanted at most {}", shown, repo.size(),
               kMaxRepoBytes);
  const size_t slash = repo.find('/');
  const std::string_view owner = repo.substr(0, slash);
  std::string_view fault = segment_fault(owner);
  if (fault.empty() && slash != std::string_view::npos)
    fault = segment_fault(repo.substr(slash + 1));
  if (!fault.empty())
    fail_usage("hf:{}: repository '{}' {}, wanted ORG/NAME", shown, shown, fault);
}

void check_part(std::string_view reference, std::string_view what,
                std::string_view part) {
  const std::string shown = printable_text(part);
  if (part.empty()) fail_usage("{}: empty {}", printable_text(reference), what);
  if (part.find("..") != std::string_view::npos || part.front() == '/' ||
      part.find('\\') != std::string_view::npos)
    fail_usage("{}: {} '{}', wanted no leading slash, \"..\" or backslash",
               printable_text(reference), what, shown);
  for (const char c : part)
    if ((c >= 0 && c < ' ') || c == 0x7F)
      fail_usage("{}: {} '{}' has a control character", printable_text(reference), what,
                 shown);
}

// A token is one line of visible ASCII: anything else could smuggle a header in.
std::string checked_token(std::string token, std::string_view from) {
  while (!token.empty() &&
         (token.back() == '\n' || token.back() == '\r' || token.back() == ' '))
    token.pop_back();
  for (const char c : token)
    if (c <= ' ' || c >= 0x7F)
      fail("{}: has a character that no token has, wanted one line of visible ASCII",
           from);
  return token;
}

std::string token_from_environment() {
  if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  if (const std::string token = variable("HF_TOKEN"); !token.empty())
    return checked_token(token, "HF_TOKEN");
  std::filesystem::path file = variable("HF_TOKEN_PATH");
  if (file.empty()) {
    if (variable("HF_HOME").empty()) return {};
    file = std::filesystem::path(variable("HF_HOME")) / "token";
    std::error_code error;
    if (!std::filesystem::exists(file, error)) return {};
  }
  return checked_token(read_file(file, kMaxTokenBytes), printable(file));
}

std::string endpoint_from_environment() {
  std::string endpoint = variable("HF_ENDPOINT");
  if (endpoint.empty()) return std::string(kDefaultEndpoint);
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string origin = url_origin(endpoint);
  const bool allowed = origin.starts_with("https://") || is_loopback_origin(origin);
  const bool plain = endpoint.find_first_of("?#@ \t\r\n") == std::string::npos;
  if (!allowed || !plain)
    fail("HF_ENDPOINT: '{}', wanted https://HOST (http only for localhost)",
         printable_text(endpoint));
  return endpoint;
}

}  // namespace

std::string HubReference::text() const {
  std::string out = std::string(kScheme) + repo;
  if (revision != kDefaultRevision) out += "@" + revision;
  if (!selector.empty()) out += ":" + selector;
  return out;
}

bool is_hub_reference(std::string_view reference) {
  return reference.starts_with(kScheme);
}

HubReference parse_hub_reference(std::string_view reference) {
  if (!is_hub_reference(reference))
    fail_usage("{}: wanted hf:ORG/NAME[@REV][:FILE|:QUANT]", printable_text(reference));
  std::string_view rest = reference.substr(kScheme.size());
  HubReference parsed;
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    parsed.selector = rest.substr(colon + 1);
    check_part(reference, "file or quantisation after ':'", parsed.selector);
    rest = rest.substr(0, colon);
  }
  parsed.revision = kDefaultRevision;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    parsed.revision = rest.substr(at + 1);
    check_part(reference, "revision after '@'", parsed.revision);
    rest = rest.substr(0, at);
  }
  check_repo(rest);
  parsed.repo = rest;
  return parsed;
}

HubOptions hub_options_from_environment() {
  HubOptions options;
  options.endpoint = endpoint_from_environment();
  options.token = token_from_environment();
  options.offline = is_on("HF_HUB_OFFLINE");
  return options;
}

}  // namespace ingot
