#include "recoverssm/info.hpp"

#include "cpu/kernels.h"

namespace recoverssm {
namespace {

constexpr Target kWidestFirst[] = {Target::avx512, Target::avx2, Target::portable};

}  // namespace

const char* version() { return RECOVERSSM_VERSION; }

std::vector<Target> available_targets() {
  std::vector<Target> targets;
  for (const Target target : kWidestFirst) {
    if (cpu::has_target(target)) targets.push_back(target);
  }
  return targets;
}

Status resolve_target(Target target, Target& resolved) {
  for (const Target candidate : kWidestFirst) {
    if ((target == Target::best || target == candidate) && cpu::has_target(candidate)) {
      resolved = candidate;
      return {};
    }
  }
  std::string message = "target: " + std::string(name_of(target)) + " is not available here, expected one of: best";
  for (const Target other : available_targets()) message += std::string(", ") + name_of(other);
  return {ErrorKind::unsupported, message};
}

}  // namespace recoverssm
