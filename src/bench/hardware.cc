#include "bench/hardware.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>

#include "bench/pinned_pool.h"

namespace recoverssm::bench {
namespace {

constexpr const char* kUnknown = "unknown";

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && !line.empty() ? line : kUnknown;
}

// "  model name : X" -> "X"
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : kUnknown;
}

// Caches of the first usable CPU, from sysfs ("2048K"): the level and the bytes.
std::size_t cache_bytes(int cpu, int wanted) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
    if (std::atoi(first_line(folder + "/level").c_str()) != wanted || first_line(folder + "/type") == "Instruction") continue;
    const std::string size = first_line(folder + "/size");
    char* end = nullptr;
    const std::size_t number = std::strtoull(size.c_str(), &end, 10);
    return number << (*end == 'K' ? 10 : *end == 'M' ? 20 : 0);
  }
  return 0;
}

std::size_t from_sysconf(int name) { return static_cast<std::size_t>(std::max(0L, ::sysconf(name))); }

// "always [madvise] never" -> "madvise"
std::string chosen(const std::string& line) {
  const std::size_t open = line.find('['), close = line.find(']');
  return open == std::string::npos || close == std::string::npos ? kUnknown : line.substr(open + 1, close - open - 1);
}

}  // namespace

Hardware read_hardware() {
  const std::vector<int> cpus = usable_cpus();
  const int cpu = cpus.empty() ? 0 : cpus.front();
  Hardware h;
  h.cpu = cpu_model();
  h.cores = static_cast<int>(cpus.size());
  h.l2_bytes = cache_bytes(cpu, 2);
  if (h.l2_bytes == 0) h.l2_bytes = from_sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (h.l2_bytes == 0) h.l2_bytes = std::size_t{1} << 20;  // nothing known: a usual size
  h.last_level_bytes = std::max(cache_bytes(cpu, 3), cache_bytes(cpu, 4));
  if (h.last_level_bytes == 0) h.last_level_bytes = from_sysconf(_SC_LEVEL3_CACHE_SIZE);
  h.last_level_bytes = std::max(h.last_level_bytes, h.l2_bytes);
  h.memory_bytes = from_sysconf(_SC_PHYS_PAGES) * from_sysconf(_SC_PAGESIZE);
  h.huge_pages = chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  h.governor = first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_governor");
  utsname name{};
  if (::uname(&name) == 0) h.kernel = std::string(name.sysname) + " " + name.release;
  std::array<double, 1> load{};
  if (::getloadavg(load.data(), 1) == 1) h.load = load[0];
  return h;
}

std::string compiler() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#else
  return std::string("gcc ") + __VERSION__;
#endif
}

std::string tree_commit() {
  std::error_code error;
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  if (error || folder.find('\'') != std::string::npos) return kUnknown;
  const std::string command = "git -C '" + folder + "' describe --always --dirty --abbrev=12 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::array<char, 128> buffer{};
  if (!pipe || std::fgets(buffer.data(), buffer.size(), pipe.get()) == nullptr) return kUnknown;
  const std::string line(buffer.data());
  return line.substr(0, line.find('\n'));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace recoverssm::bench
