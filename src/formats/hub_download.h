// One file from the hub to disk: resumed, length-checked at every step, hash-checked at
// the end.  The final name appears only when all of it is right.
#pragma once

#include <filesystem>

#include "formats/hub.h"
#include "formats/hub_client.h"

namespace ingot {

// Downloads `file` of `listing` to `target`.  While it is incomplete it is called
// TARGET.partial, with TARGET.partial.etag beside it: what the bytes are part of.  Both
// stay after an Error of the network, the disk or Ctrl-C; bytes that turn out wrong are
// removed.
void download_file(HubClient& client, const HubReference& reference,
                   const HubListing& listing, HubFile file,
                   const std::filesystem::path& target);

// Bytes of TARGET.partial, 0 when there is none.
uint64_t partial_bytes(const std::filesystem::path& target);

// SHA-1 of "blob SIZE\0" + content, as git names a file.  Throws Error.
std::string git_sha1_file(const std::filesystem::path& path);

// "bytes 5-9/10" -> {5, 9, 10}; "bytes */10" -> only the total; nothing when malformed or
// contradictory (first > last, last >= total).
struct ContentRange {
  std::optional<uint64_t> first, last, total;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

}  // namespace ingot
