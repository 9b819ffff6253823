// What CMake's list of CUDA architectures means: which code is in the build, and on which devices it runs.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace recoverssm::cuda {

struct Architecture {
  int number = 0;    // 90: compute capability 9.0
  char variant = 0;  // 'a': that capability alone; 'f': its family; 0: neither
  bool ptx = false;  // else machine code

  std::string name() const {
    return (ptx ? "compute_" : "sm_") + std::to_string(number) + (variant == 0 ? "" : std::string(1, variant));
  }
  // Machine code runs on later minor versions of its major one, PTX on everything later; variants where they were meant for.
  bool runs_on(int major, int minor) const {
    const int capability = 10 * major + minor;
    if (variant == 'a') return capability == number;
    const bool same_major = number / 10 == major;
    return capability >= number && (same_major || (ptx && variant == 0));
  }
};

// "80,90a,120-real,120-virtual": an entry without -real or -virtual is both. Entries that name no number are left out.
inline std::vector<Architecture> parse_architectures(std::string_view list) {
  std::vector<Architecture> found;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view entry = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    Architecture architecture;
    const auto number = std::from_chars(entry.data(), entry.data() + entry.size(), architecture.number);
    if (number.ec != std::errc{}) continue;
    std::string_view rest = entry.substr(static_cast<std::size_t>(number.ptr - entry.data()));
    if (!rest.empty() && rest.front() != '-') {
      architecture.variant = rest.front();
      rest.remove_prefix(1);
    }
    if (rest != "-virtual") found.push_back(architecture);
    architecture.ptx = true;
    if (rest != "-real") found.push_back(architecture);
  }
  return found;
}

}  // namespace recoverssm::cuda
