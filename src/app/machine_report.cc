#include "app/machine_report.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "ops/cpu/machine.h"
#include "ops/ops.h"

namespace ingot {
namespace {

// "MemAvailable:   1234 kB" of /proc/meminfo in bytes; 0 where the system has no such
// file.
uint64_t bytes_in(const char* file, std::string_view field) {
  constexpr size_t kMaxBytes = 1 << 20;
  try {
    std::istringstream lines(read_file(file, kMaxBytes));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string key;
      uint64_t kilobytes = 0;
      if (words >> key && key == fmt::format("{}:", field) && words >> kilobytes)
        return kilobytes * 1024;
    }
  } catch (const Error&) {
    // Not Linux: the caller asks the C library.
  }
  return 0;
}

uint64_t pages(int name) {
  const long n = ::sysconf(name);
  return n < 0 ? 0 : uint64_t(n) * uint64_t(::sysconf(_SC_PAGESIZE));
}

// Whether make_cpu_ops takes this instruction set here.
bool has_kernels(const char* isa) {
  try {
    make_cpu_ops({.n_threads = 1, .act = ActMode::automatic, .isa = isa});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts out;
  out.cpu = printable_text(cpu::cpu_name());
  out.features = cpu::cpu_features();
  out.n_cores = default_thread_count();
  out.backend = make_cpu_ops({})->name();
  for (const char* isa : {"scalar", "avx2", "avx512", "amx", "neon"})
    if (has_kernels(isa)) out.kernel_tables.push_back(isa);
  out.memory_bytes = pages(_SC_PHYS_PAGES);
  out.available_bytes = bytes_in("/proc/meminfo", "MemAvailable");
  if (out.available_bytes == 0) out.available_bytes = out.memory_bytes;
  return out;
}

MachineSpeed measure_machine(int n_threads) {
  return {cpu::measure_read_bandwidth(n_threads) * 1e9,
          cpu::measure_int8_peak(n_threads) * 1e9,
          cpu::measure_f32_peak(n_threads) * 1e9};
}

MachineSpeed faster(const MachineSpeed& a, const MachineSpeed& b) {
  return {std::max(a.read_bytes_per_s, b.read_bytes_per_s),
          std::max(a.int8_operations_per_s, b.int8_operations_per_s),
          std::max(a.f32_operations_per_s, b.f32_operations_per_s)};
}

uint64_t peak_resident_bytes() {
  if (const uint64_t bytes = bytes_in("/proc/self/status", "VmHWM")) return bytes;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) * 1024;
}

std::string machine_line(const MachineFacts& facts, const MachineSpeed& speed,
                         int n_threads) {
  return fmt::format(
      "{}, {} thread{}, {}: reads {:.2f} GB/s, int8 {:.1f} Gop/s, f32 {:.1f} Gop/s "
      "(measured in this run)\n",
      facts.cpu, n_threads, n_threads == 1 ? "" : "s", facts.backend,
      speed.read_bytes_per_s / 1e9, speed.int8_operations_per_s / 1e9,
      speed.f32_operations_per_s / 1e9);
}

nlohmann::ordered_json machine_json(const MachineFacts& facts, const MachineSpeed& speed,
                                    int n_threads) {
  return {{"cpu", facts.cpu},
          {"features", facts.features},
          {"cores", facts.n_cores},
          {"threads", n_threads},
          {"backend", facts.backend},
          {"kernel_tables", facts.kernel_tables},
          {"memory_bytes", facts.memory_bytes},
          {"available_bytes", facts.available_bytes},
          {"read_gb_per_s", speed.read_bytes_per_s / 1e9},
          {"int8_gop_per_s", speed.int8_operations_per_s / 1e9},
          {"f32_gop_per_s", speed.f32_operations_per_s / 1e9}};
}

nlohmann::ordered_json build_json() {
#if defined(__clang__)
  const std::string compiler = fmt::format("clang {}", __clang_version__);
#else
  const std::string compiler = fmt::format("g++ {}", __VERSION__);
#endif
  return {{"version", INGOT_VERSION},
          {"compiler", compiler},
          {"numerics_version", make_cpu_ops({})->numerics_version()}};
}

}  // namespace ingot
