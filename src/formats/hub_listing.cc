#include "formats/hub_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/hub_text.h"

namespace ingot {
namespace {

using nlohmann::json;

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

}  // namespace

std::string HubSubject::text() const {
  return file.empty() ? printable_text(reference.text())
                      : fmt::format("hf:{}/{}", reference.repo, printable_text(file));
}

HubListing parse_model_info(std::string_view text, const HubSubject& subject,
                            bool* has_files) {
  const json info = json::parse(text, nullptr, false);
  if (!info.is_object())
    fail("{}: the hub's answer is no JSON object, wanted the repository's listing",
         subject.text());
  HubListing listing;
  listing.commit = lower_case(text_field(info, "sha"));
  if (!is_hex(listing.commit, 40))
    fail("{}: the hub's listing has sha '{}', wanted a commit of 40 hex digits",
         subject.text(), printable_text(listing.commit));
  const auto siblings = info.find("siblings");
  *has_files = siblings != info.end() && siblings->is_array();
  if (!*has_files) return listing;
  for (const json& entry : *siblings)
    listing.files.push_back(parse_file(entry, "rfilename", "blobId", "sha256", subject));
  return listing;
}

void add_tree_page(HubListing& listing, std::string_view text,
                   const HubSubject& subject) {
  const json entries = json::parse(text, nullptr, false);
  if (!entries.is_array())
    fail("{}: the hub's file list is no JSON array", subject.text());
  for (const json& entry : entries) {
    if (entry.is_object() && text_field(entry, "type") == "directory") continue;
    listing.files.push_back(parse_file(entry, "path", "oid", "oid", subject));
  }
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
