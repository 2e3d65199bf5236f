#include "model/synth.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/half.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "formats/gguf_mix.h"
#include "formats/gguf_write.h"
#include "formats/safetensors_stream.h"
#include "model/derive.h"
#include "model/synth_tensors.h"
#include "model/to_gguf.h"
#include "tensor/random_weights.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t(1) << 20;

// A tensor has draws of its own, found by its name: leaving others out changes nothing.
CounterRng draws_of(uint64_t seed, const std::string& name) {
  uint64_t hash = 0;
  for (const char c : name) hash = mix_bits(hash ^ uint8_t(c)) + 1;
  return {seed, hash};
}

// ---- Small vectors ------------------------------------------------------------------

double vector_value(const SynthTensor& tensor, size_t i, double uniform) {
  const double step = 0.001 * std::pow(100.0, uniform);  // of a state: 0.001 to 0.1
  switch (tensor.kind) {
    case SynthKind::norm:
      return 0.95 + 0.1 * uniform - double(tensor.add);
    case SynthKind::decay:
      return -(1.0 + 15.0 * uniform);
    case SynthKind::log_decay:
      return std::log(1.0 + 15.0 * uniform);
    case SynthKind::dt_bias:
      return std::log(std::expm1(step));
    case SynthKind::constant:
      return double(tensor.values[i]);
    default:
      return 0.04 * (uniform - 0.5);
  }
}

std::vector<std::byte> vector_bytes(const SynthTensor& tensor, DType type,
                                    const CounterRng& rng) {
  const auto n = size_t(element_count(tensor.shape));
  const auto width = size_t(info(type).group_bytes);
  std::vector<std::byte> out(n * width);
  for (size_t i = 0; i < n; ++i) {
    const auto value = float(vector_value(tensor, i, rng.uniform(i)));
    const uint16_t half = type == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
    if (type == DType::f32)
      std::memcpy(out.data() + i * width, &value, width);
    else
      std::memcpy(out.data() + i * width, &half, width);
  }
  return out;
}

// ---- Writing ------------------------------------------------------------------------

// Calls write(bytes) with the tensor's bytes, a chunk at a time.
template <typename Write>
void write_tensor(const SynthTensor& tensor, DType type, uint64_t seed,
                  std::vector<std::byte>& chunk, const Write& write) {
  const CounterRng rng =
      draws_of(seed, tensor.drawn_as.empty() ? tensor.name : tensor.drawn_as);
  if (tensor.kind != SynthKind::matrix) return write(vector_bytes(tensor, type, rng));
  const auto deviation = float(1.0 / std::sqrt(double(tensor.n_in)));
  const auto group_bytes = size_t(info(type).group_bytes);
  const uint64_t n_groups =
      uint64_t(element_count(tensor.shape)) / uint64_t(info(type).group_elements);
  const uint64_t n_chunk = kChunkBytes / group_bytes;
  for (uint64_t first = 0; first < n_groups; first += n_chunk) {
    chunk.resize(size_t(std::min(n_chunk, n_groups - first)) * group_bytes);
    random_weights(type, rng, first, deviation, chunk);
    throw_if_interrupted();
    write(std::span<const std::byte>(chunk));
  }
}

// Writes `tensors` in the order of `entries` (which name them), and tells how far it is.
template <typename Entry, typename Writer>
void write_all(const std::vector<SynthTensor>& tensors, const std::vector<Entry>& entries,
               uint64_t seed, uint64_t n_bytes, const fs::path& path, Writer& writer) {
  std::map<std::string_view, const SynthTensor*> by_name;
  for (const SynthTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  Progress progress("writing " + printable(path.filename()), n_bytes,
                    ProgressUnit::bytes);
  std::vector<std::byte> chunk;
  uint64_t done = 0;
  for (const Entry& entry : entries)
    write_tensor(*by_name.at(entry.name), entry.dtype, seed, chunk,
                 [&](std::span<const std::byte> bytes) {
                   writer.write(bytes);
                   progress.update(done += bytes.size());
                 });
  writer.commit();
}

// A disk that is too small is told before an hour of writing, where the system says.
void require_space(const fs::path& path, uint64_t n_bytes) {
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const fs::space_info disk = fs::space(folder, error);
  if (!error && disk.available < n_bytes)
    fail("{}: no space: {:.2f} GB to write, {:.2f} GB free", printable(path),
         double(n_bytes) / 1e9, double(disk.available) / 1e9);
}

SynthSummary summary_of(const std::vector<SynthTensor>& tensors, uint64_t n_bytes,
                        const std::string& type) {
  SynthSummary out{.type = type, .n_bytes = n_bytes, .n_tensors = tensors.size()};
  for (const SynthTensor& tensor : tensors)
    out.n_values += uint64_t(element_count(tensor.shape));
  return out;
}

SynthSummary write_gguf(const SynthOptions& options, const Recipe& recipe,
                        const GgufPrecision& precision) {
  GgufForm form = to_gguf(recipe, options.config);
  Metadata& metadata = form.metadata;
  metadata["general.name"] = fmt::format("random weights, seed {}, at the shapes of {}",
                                         options.seed, recipe.family);
  metadata["general.file_type"] = uint64_t(precision.file_type);
  metadata["general.quantization_version"] = uint64_t(2);
  metadata["tokenizer.ggml.model"] = std::string("no_vocab");
  std::vector<SynthTensor> tensors =
      synth_tensors(form.recipe, Container::gguf, form.constants);
  if (form.head_is_embedding)  // last of all; the same values where the types are one
    tensors.back().drawn_as = form.recipe.embed.name;
  std::vector<GgufWriteEntry> entries;
  for (const SynthTensor& tensor : tensors)
    entries.push_back({tensor.name, DType::f32, tensor.shape});
  choose_types(precision, form.mixture, entries);
  const uint64_t n_bytes = gguf_file_bytes(options.out, metadata, entries);
  require_space(options.out, n_bytes);
  GgufWriter writer(options.out, metadata, entries);
  write_all(tensors, entries, options.seed, n_bytes, options.out, writer);
  return summary_of(tensors, n_bytes, options.type);
}

// The config as it was, without the quantisation that the weights do not have.
std::string plain_config(const fs::path& file) {
  const std::string text = read_file(file);
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(text);
  bool changed = false;
  for (const char* name : {"quantization_config", "quantization"}) {
    changed |= config.erase(name) > 0;
    if (config.contains("text_config") && config["text_config"].is_object())
      changed |= config["text_config"].erase(name) > 0;
  }
  return changed ? config.dump(2) + "\n" : text;
}

// A directory that appears under its name when it is whole.
class NewDirectory {
 public:
  explicit NewDirectory(fs::path path) : path_(std::move(path)) {
    std::string pattern = path_.string() + ".tmp-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr)
      fail("{}: cannot be made: {}", printable(path_), std::strerror(errno));
    temporary_ = pattern;
    fs::permissions(temporary_, fs::perms(0755));
  }
  ~NewDirectory() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const fs::path& path() const { return temporary_; }
  void commit() {
    std::error_code error;
    fs::rename(temporary_, path_, error);
    if (error) fail("{}: cannot be put in place: {}", printable(path_), error.message());
    temporary_.clear();
  }

 private:
  fs::path path_;
  fs::path temporary_;
};

SynthSummary write_directory(const SynthOptions& options, const Recipe& recipe,
                             DType type) {
  const std::vector<SynthTensor> tensors =
      synth_tensors(recipe, Container::safetensors, {});
  std::vector<SafetensorsPlan> plans;
  uint64_t n_bytes = 0;
  for (const SynthTensor& tensor : tensors) {
    plans.push_back({tensor.name, type, tensor.shape});
    n_bytes += plans.back().n_bytes();
  }
  sort_for_safetensors(plans);
  const fs::path out =
      options.out.has_filename() ? options.out : options.out.parent_path();
  std::error_code error;
  if (fs::exists(out, error) && !fs::is_empty(out, error))
    fail("{}: is there already, wanted a new directory", printable(out));
  require_space(out, n_bytes);
  NewDirectory directory(out);
  AtomicFile config(directory.path() / "config.json");
  config.write(plain_config(options.config));
  config.commit();
  SafetensorsWriter writer(directory.path() / "model.safetensors", plans,
                           {{"format", "pt"}});
  write_all(tensors, plans, options.seed, n_bytes, out, writer);
  directory.commit();
  return summary_of(tensors, n_bytes, options.type);
}

}  // namespace

SynthSummary synthesize(const SynthOptions& given) {
  SynthOptions options = given;
  const bool gguf = options.out.extension() == ".gguf";
  if (options.type.empty()) options.type = gguf ? "q4_k_m" : "bf16";
  const std::optional<GgufPrecision> precision = gguf_precision(options.type);
  if (!precision)
    fail_usage("--type is '{}', wanted one of {}", options.type, gguf_precision_names());
  const DType type = precision->type;
  const bool plain = type == DType::f32 || type == DType::f16 || type == DType::bf16;
  if (!gguf && !plain)
    fail_usage(
        "--type is '{}', wanted f32, f16 or bf16 for a directory, or an OUT that "
        "ends in .gguf",
        options.type);
  const Recipe recipe = derive_from_config_alone(options.config);
  return gguf ? write_gguf(options, recipe, *precision)
              : write_directory(options, recipe, type);
}

}  // namespace ingot
