// What a hub sends about a repository and its files, read with suspicion.
#pragma once

#include <cstdint>
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

// The answer to GET /api/models/ID/revision/REV: commit and, when `has_files`, the files.
// Throws Error when it is malformed or names a path that leaves the folder (HB-2).
HubListing parse_model_info(std::string_view json, const HubSubject& subject,
                            bool* has_files);
// One page of GET /api/models/ID/tree/COMMIT.
void add_tree_page(HubListing& listing, std::string_view json, const HubSubject& subject);
// The address in `Link: <...>; rel="next"`; empty when there is none.
std::string next_page(const HttpHeaders& headers);

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
