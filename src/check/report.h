// What one check found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "check/material.h"
#include "recoverssm/types.hpp"

namespace recoverssm::check {

class Report {
 public:
  Report(std::string check, const Material& material) : check_(std::move(check)), material_(material) {}

  // Dense elements, compared bitwise; any NaN equals any NaN. `got` may be changed by a test's tamper.
  void expect_bits(const std::string& what, DType dtype, std::span<std::byte> got, std::span<const std::byte> want);
  void expect(bool holds, const std::string& failure);
  void fail(std::string failure) { failures.push_back(std::move(failure)); }
  void count(std::int64_t comparisons) { compared += comparisons; }
  // The check cannot run here.
  void skip(std::string reason) { skipped = std::move(reason); }

  const Material& material() const { return material_; }

  std::int64_t compared = 0;          // elements or facts
  std::vector<std::string> failures;  // what differed: first index, got, want
  std::string skipped;                // why nothing was checked; empty: it was

 private:
  std::string check_;
  const Material& material_;
};

// "buffer: element 3: got 1 (0x3f800000), want 0 (0x00000000); 2 of 8 differ", or nothing if all bits agree.
std::string difference(const std::string& what, DType dtype, std::span<const std::byte> got, std::span<const std::byte> want);

}  // namespace recoverssm::check
