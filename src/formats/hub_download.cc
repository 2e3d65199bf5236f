#include "formats/hub_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "formats/hub_text.h"
#include "formats/store_write.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxEtagFileBytes = 64 << 10;
// A try that brought this much, or an eighth of the file, resets the count of tries.
constexpr uint64_t kProgressBytes = uint64_t(1) << 20;

fs::path with_suffix(const fs::path& path, const char* suffix) {
  return fs::path(path.native() + suffix);
}

class FileDownload {
 public:
  FileDownload(HubClient& client, const HubReference& reference,
               const HubListing& listing, HubFile file, const fs::path& target)
      : client_(client),
        listing_(listing),
        file_(std::move(file)),
        subject_{reference, file_.path},
        target_(target),
        partial_(with_suffix(target, ".partial")),
        etag_path_(with_suffix(target, ".partial.etag")),
        progress_(printable(target.filename()), file_.size_bytes.value_or(0),
                  ProgressUnit::bytes) {}
  ~FileDownload() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDownload(const FileDownload&) = delete;
  FileDownload& operator=(const FileDownload&) = delete;

  void run();

 private:
  void open_partial();
  bool is_complete() const { return file_.size_bytes && offset_ == *file_.size_bytes; }
  HttpResult fetch_rest();
  void on_bytes(const HttpAnswer& answer, std::span<const char> bytes);
  void begin_body(const HttpAnswer& answer);
  void begin_range(const HttpAnswer& answer);
  void begin_whole(const HttpAnswer& answer);
  void write(std::span<const char> bytes);
  void restart();  // throws the partial bytes away
  void handle_range_refused(const HttpAnswer& answer);
  uint64_t bytes_left() const;
  HttpResult judged(HttpResult result) const;
  bool verify();
  void keep_identity(const std::string& etag);
  std::string identity() const {
    return file_.sha256.empty() ? file_.git_sha1 : file_.sha256;
  }

  HubClient& client_;
  const HubListing& listing_;
  HubFile file_;
  HubSubject subject_;
  fs::path target_, partial_, etag_path_;
  Progress progress_;
  int fd_ = -1;
  uint64_t offset_ = 0;      // bytes in the partial file
  std::string strong_etag_;  // of the host that sends the bytes, for If-Range
  bool resumed_ = false;     // some bytes are from an earlier request
  bool body_begun_ = false;  // of the running request
  bool range_refused_ = false;
  bool hash_failed_ = false;
};

void FileDownload::open_partial() {
  fd_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0)
    fail("{}: cannot be written: {}", printable(partial_), std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode))
    fail("{}: not a regular file", printable(partial_));
  offset_ = uint64_t(status.st_size);
  // The note says which content the bytes belong to; without it they are worth nothing.
  std::string note;
  std::error_code error;
  if (fs::exists(etag_path_, error)) note = read_file(etag_path_, kMaxEtagFileBytes);
  const size_t line = note.find('\n');
  const std::string noted = note.substr(0, line);
  if (line != std::string::npos) strong_etag_ = note.substr(line + 1);
  while (strong_etag_.ends_with('\n')) strong_etag_.pop_back();
  const bool same = !identity().empty() ? noted == identity() : !strong_etag_.empty();
  const bool too_long = file_.size_bytes && offset_ > *file_.size_bytes;
  if (offset_ > 0 && (!same || too_long)) {
    log_info("{}: the unfinished download is of another version; starting again",
             subject_.text());
    restart();
  }
  resumed_ = offset_ > 0;
}

void FileDownload::keep_identity(const std::string& etag) {
  strong_etag_ = etag;
  AtomicFile note(etag_path_);
  note.write(identity() + "\n" + etag + "\n");
  note.commit();
}

void FileDownload::restart() {
  if (::ftruncate(fd_, 0) != 0)
    fail("{}: cannot be emptied: {}", printable(partial_), std::strerror(errno));
  ::unlink(etag_path_.c_str());
  strong_etag_.clear();
  offset_ = 0;
  resumed_ = false;
}

HttpResult FileDownload::fetch_rest() {
  HttpRequest request =
      client_.request(client_.resolve_path(file_, listing_.commit, subject_.reference));
  if (offset_ > 0) {
    request.headers.push_back(fmt::format("Range: bytes={}-", offset_));
    // A host whose file has changed then sends all of it instead of a wrong rest.
    if (!strong_etag_.empty())
      request.headers.push_back(fmt::format("If-Range: \"{}\"", strong_etag_));
  }
  body_begun_ = false;
  return http_send(request,
                   [this](const HttpAnswer& answer, std::span<const char> bytes) {
                     on_bytes(answer, bytes);
                   });
}

void FileDownload::on_bytes(const HttpAnswer& answer, std::span<const char> bytes) {
  throw_if_interrupted();
  if (answer.status != 200 && answer.status != 206) return;  // an error page
  if (!body_begun_) begin_body(answer);
  if (file_.size_bytes && bytes.size() > *file_.size_bytes - offset_) {
    restart();
    fail("{}: {} sends more than the {} bytes that the file has", subject_.text(),
         url_origin(answer.last_url), *file_.size_bytes);
  }
  write(bytes);
  progress_.update(offset_);
}

void FileDownload::begin_body(const HttpAnswer& answer) {
  body_begun_ = true;
  client_.heard_answer();
  learn_from_headers(file_, answer, subject_.text());
  if (answer.status == 206)
    begin_range(answer);
  else
    begin_whole(answer);
  if (offset_ == 0)
    keep_identity(bare_etag(header(answer.last, "etag"), EtagKind::strong_only));
}

void FileDownload::begin_range(const HttpAnswer& answer) {
  const std::string& text = header(answer.last, "content-range");
  const std::optional<ContentRange> range = parse_content_range(text);
  const std::string host = url_origin(answer.last_url);
  if (!range || !range->first)
    fail("{}: {} answers 206 with Content-Range '{}', wanted bytes {}-", subject_.text(),
         host, printable(text), offset_);
  if (*range->first != offset_ ||
      (range->total && file_.size_bytes && *range->total != *file_.size_bytes))
    fail("{}: {} sends Content-Range '{}', wanted bytes {}-/{}", subject_.text(), host,
         printable(text), offset_,
         file_.size_bytes ? fmt::format("{}", *file_.size_bytes) : "*");
  const std::optional<uint64_t> length = parse_u64(header(answer.last, "content-length"));
  if (length && *length != *range->last - *range->first + 1)
    fail("{}: {} sends Content-Range '{}' and Content-Length {}, which differ",
         subject_.text(), host, printable(text), *length);
  if (!file_.size_bytes) file_.size_bytes = range->total;
}

void FileDownload::begin_whole(const HttpAnswer& answer) {
  const std::optional<uint64_t> length = parse_u64(header(answer.last, "content-length"));
  if (length && file_.size_bytes && *length != *file_.size_bytes)
    fail("{}: {} sends {} bytes, wanted {}", subject_.text(), url_origin(answer.last_url),
         *length, *file_.size_bytes);
  if (!file_.size_bytes) file_.size_bytes = length;
  if (!file_.size_bytes)
    fail("{}: the hub names no size for it, wanted one to check the download against",
         subject_.text());
  if (offset_ > 0) restart();
}

void FileDownload::write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), off_t(offset_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      throw Error(
          fmt::format("{}: cannot be written: {} ({} of {} are there)",
                      printable(partial_), std::strerror(error), human_bytes(offset_),
                      human_bytes(file_.size_bytes.value_or(0))),
          "the part that is there stays: make room and pull again to go on, or "
          "remove it with ingot rm");
    }
    offset_ += uint64_t(n);
    bytes = bytes.subspan(size_t(n));
  }
}

// 416 to our Range: what we have is no beginning of what the server has.
void FileDownload::handle_range_refused(const HttpAnswer& answer) {
  if (offset_ == 0 || range_refused_)
    fail("{}: {} answers 416 (range not satisfiable) to a request for all of it",
         subject_.text(), url_origin(answer.last_url));
  range_refused_ = true;
  restart();
}

bool FileDownload::verify() {
  const std::string wanted = identity();
  if (wanted.empty()) {
    log_warning("{}: the hub names no hash for it; only its size was checked",
                subject_.text());
    return true;
  }
  Progress progress("checking " + printable(target_.filename()), offset_,
                    ProgressUnit::bytes);
  const std::string found = file_.sha256.empty()
                                ? git_sha1_file(partial_)
                                : sha256_file(partial_, [&](uint64_t n_done) {
                                    throw_if_interrupted();
                                    progress.update(n_done);
                                  });
  if (found == wanted) return true;
  const bool try_again = resumed_ && !hash_failed_;
  hash_failed_ = true;
  restart();
  const std::string_view kind = file_.sha256.empty() ? "git hash" : "SHA-256";
  if (!try_again) fail("{}: {} is {}, wanted {}", subject_.text(), kind, found, wanted);
  log_warning("{}: {} is {}, wanted {}; loading all of it again", subject_.text(), kind,
              found, wanted);
  return false;
}

uint64_t FileDownload::bytes_left() const {
  const uint64_t size = file_.size_bytes.value_or(0);
  return size - std::min(offset_, size);
}

// A result that is not the whole rest, in the terms of HubClient::retry_or_fail.
HttpResult FileDownload::judged(HttpResult result) const {
  const int status = result.answer.status;
  const std::string host = url_origin(result.answer.last_url);
  if (result.outcome != HttpOutcome::complete) return result;
  if (status == 200 || status == 206) {  // no length was given, and the body ended early
    result.outcome = HttpOutcome::dropped;
    result.detail = fmt::format("{}: ended after {} of {} bytes", host, offset_,
                                file_.size_bytes.value_or(0));
  } else if (status == 403 && host != url_origin(client_.options().endpoint)) {
    result.outcome = HttpOutcome::dropped;  // a signed address that expired: ask anew
    result.detail = host + ": answers 403";
  }
  return result;
}

void FileDownload::run() {
  open_partial();
  Patience patience(client_.options());
  while (!is_complete() || !verify()) {
    require_free_space(bytes_left(), printable(target_.filename()));
    const uint64_t before = offset_;
    HttpResult result = fetch_rest();
    const uint64_t enough = std::min(kProgressBytes, file_.size_bytes.value_or(0) / 8);
    if (offset_ > before && offset_ - before >= enough) patience.made_progress();
    if (is_complete()) continue;
    resumed_ = resumed_ || offset_ > 0;
    if (result.outcome == HttpOutcome::complete && result.answer.status == 416)
      handle_range_refused(result.answer);
    else
      client_.retry_or_fail(judged(std::move(result)), subject_, patience);
  }
  if (::fsync(fd_) != 0)
    fail("{}: cannot be synced: {}", printable(partial_), std::strerror(errno));
  if (::rename(partial_.c_str(), target_.c_str()) != 0)
    fail("{}: cannot be put in place: {}", printable(target_), std::strerror(errno));
  ::unlink(etag_path_.c_str());
}

struct DigestDelete {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

void download_file(HubClient& client, const HubReference& reference,
                   const HubListing& listing, HubFile file, const fs::path& target) {
  client.complete(file, listing, reference);
  FileDownload(client, reference, listing, std::move(file), target).run();
}

uint64_t partial_bytes(const fs::path& target) {
  std::error_code error;
  const uint64_t size = fs::file_size(with_suffix(target, ".partial"), error);
  return error ? 0 : size;
}

std::string git_sha1_file(const fs::path& path) {
  const MappedFile file(path);
  const std::string head = fmt::format("blob {}", file.bytes().size());
  const std::unique_ptr<EVP_MD_CTX, DigestDelete> context(EVP_MD_CTX_new());
  std::array<unsigned char, 20> digest{};
  CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha1(), nullptr));
  CHECK(EVP_DigestUpdate(context.get(), head.c_str(), head.size() + 1));  // with the NUL
  CHECK(EVP_DigestUpdate(context.get(), file.bytes().data(), file.bytes().size()));
  CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), nullptr));
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return {};
  text.remove_prefix(kUnit.size());
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return {};
  ContentRange range;
  const std::string_view total = text.substr(slash + 1);
  range.total = parse_u64(total);
  if (!range.total && total != "*") return {};
  const std::string_view span = text.substr(0, slash);
  if (span == "*") return range.total ? std::optional(range) : std::nullopt;
  const size_t dash = span.find('-');
  if (dash == std::string_view::npos) return {};
  range.first = parse_u64(span.substr(0, dash));
  range.last = parse_u64(span.substr(dash + 1));
  if (!range.first || !range.last || *range.first > *range.last) return {};
  if (range.total && *range.last >= *range.total) return {};
  return range;
}

}  // namespace ingot
