// The self-test: a table of checks, run on every SIMD target with one thread and with several; some of them also on a device.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "check/material.h"
#include "check/report.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::check {

// Where a check runs. Operations are called with `context`, which has the threads and the target.
struct Place {
  Context& context;
  Target target;
  int threads;
  Backend backend = Backend::cpu;  // only a check that runs on devices sees another
};

struct Check {
  const char* name;
  const char* what;  // for people: what holds when it passes
  void (*run)(const Place& place, Report& report);
  bool every_target;       // false: nothing in it depends on the target; once is enough
  bool on_device = false;  // runs on devices as well
};

std::span<const Check> checks();

struct Result {
  std::string check;
  std::string what;
  std::string target;  // "portable", ..., or "any"
  Report report;
  double seconds = 0;

  bool ok() const { return report.failures.empty(); }
};

struct Options {
  std::vector<Target> targets;  // resolved ones, never Target::best
  std::vector<int> threads = {1, 4};
  Backend backend = Backend::cpu;                // a device: the checks that run there, once; targets and threads are the CPU's
  std::function<void(const Result&)> on_result;  // optional, after each check
};

std::vector<Result> run_checks(const Material& material, const Options& options);

// The checks, a file each.
void check_traces(const Place& place, Report& report);
void check_functions(const Place& place, Report& report);
void check_functions_host(const Place& place, Report& report);
void check_division(const Place& place, Report& report);
void check_division_host(const Place& place, Report& report);
void check_fma(const Place& place, Report& report);
void check_rounding(const Place& place, Report& report);
void check_subnormals(const Place& place, Report& report);
void check_session_eager(const Place& place, Report& report);
void check_session_lazy(const Place& place, Report& report);
void check_agreement(const Place& place, Report& report);

}  // namespace recoverssm::check
