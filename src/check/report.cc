#include "check/report.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "trace/element.h"

namespace recoverssm::check {

namespace {

bool same(DType dtype, const std::byte* got, const std::byte* want) {
  if (std::memcmp(got, want, static_cast<std::size_t>(size_of(dtype))) == 0) return true;
  return trace::is_floating(dtype) && std::isnan(trace::value_of(dtype, got)) && std::isnan(trace::value_of(dtype, want));
}

}  // namespace

std::string difference(const std::string& what, DType dtype, std::span<const std::byte> got, std::span<const std::byte> want) {
  const auto size = static_cast<std::size_t>(size_of(dtype));
  if (got.size() != want.size()) return fmt::format("{}: {} bytes, want {}", what, got.size(), want.size());
  const std::size_t elements = got.size() / size;
  std::size_t differing = 0, first = 0;
  for (std::size_t i = elements; i-- > 0;) {
    if (same(dtype, got.data() + i * size, want.data() + i * size)) continue;
    ++differing;
    first = i;
  }
  if (differing == 0) return {};
  return fmt::format("{}: element {}: got {}, want {}; {} of {} differ", what, first,
                     trace::text_of(dtype, got.data() + first * size), trace::text_of(dtype, want.data() + first * size), differing,
                     elements);
}

void Report::expect_bits(const std::string& what, DType dtype, std::span<std::byte> got, std::span<const std::byte> want) {
  if (material_.tamper) material_.tamper(check_, what, got);
  compared += static_cast<std::int64_t>(want.size()) / size_of(dtype);
  if (std::string found = difference(what, dtype, got, want); !found.empty()) fail(std::move(found));
}

void Report::expect(bool holds, const std::string& failure) {
  ++compared;
  if (!holds) fail(failure);
}

}  // namespace recoverssm::check
