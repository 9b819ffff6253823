// Measures exp, log and the narrowing functions over all 2^32 floats (or every STEP-th) and prints a table. Exit code 1 if anything
// exceeds what the contract promises.
//
//   arithmetic_exhaustive [STEP]
#include <cstdio>
#include <cstdlib>

#include "arithmetic/measure.h"

using namespace recoverssm::arithmetic_test;

namespace {

bool report(const char* name, const Accuracy& a) {
  std::printf("%-6s %.4f ulp at %-16a (subnormal results: %.4f at %a)  special cases wrong: %llu of %llu floats\n", name,
              a.normal.ulp, static_cast<double>(a.normal.at), a.subnormal.ulp, static_cast<double>(a.subnormal.at),
              static_cast<unsigned long long>(a.wrong), static_cast<unsigned long long>(a.tested));
  return a.wrong == 0 && a.normal.ulp <= 1.0 && a.subnormal.ulp <= 1.0;
}

bool report(const char* name, const char* what, const Mismatches& m) {
  std::printf("%-18s %-22s wrong: %llu of %llu floats\n", name, what, static_cast<unsigned long long>(m.wrong),
              static_cast<unsigned long long>(m.tested));
  return m.wrong == 0;
}

}  // namespace

int main(int count, char** arguments) {
  const auto step = static_cast<std::uint32_t>(count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 1);
  if (step == 0) {
    std::fprintf(stderr, "usage: arithmetic_exhaustive [STEP], STEP a positive number\n");
    return 2;
  }
  const Blocks& blocks = fastest_blocks();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line when it is known: the whole takes minutes
  std::printf("%s, loops compiled for %s\n", describe_sample(step).c_str(), blocks.target);
  bool good = report("exp", measure_exp(blocks.exp, step));
  good &= report("log", measure_log(blocks.log, step));
  good &= report("bf16", "narrowing", check_narrowing(blocks.bf16, kBf16, step));
  good &= report("f16", "narrowing", check_narrowing(blocks.f16, kF16, step));
  for (const Blocks& other : all_blocks()) {
    if (!other.available || &other == &blocks) continue;
    good &= report(other.target, "exp, same bits", compare(other.exp, blocks.exp, step));
    good &= report(other.target, "log, same bits", compare(other.log, blocks.log, step));
    good &= report(other.target, "bf16, same bits", compare(other.bf16, blocks.bf16, step));
    good &= report(other.target, "f16, same bits", compare(other.f16, blocks.f16, step));
  }
  std::puts(good ? "as promised" : "NOT as promised");
  return good ? 0 : 1;
}
