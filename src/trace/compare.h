// Checks of what a view holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/document.h"

namespace recoverssm::trace {

// What a check found. `detail` tells the first element that does not hold: index, got, want, and how many others.
struct Finding {
  bool holds = true;
  std::string detail;
  double max_error = 0;  // tolerance checks: the largest |got - want|; infinity where no finite difference exists
};

// `got` is the memory of the view's buffer. `want` is a dense tensor of the view's dtype and shape.
Finding check_bits(const View& view, const std::byte* got, const std::byte* want);

// |got - want| <= atol + rtol*|want|, in double precision; NaN equals NaN, equal infinities match.
Finding check_tolerance(const View& view, const std::byte* got, const std::byte* want, double rtol, double atol);

// Bitwise the same as another view of the same dtype and shape; `want` is the memory of that view's buffer.
Finding check_same(const View& view, const std::byte* got, const View& other, const std::byte* want);

// The same contents: bitwise, but that two NaNs are one value, whatever their sign and payload (the contract promises neither for a NaN
// that was computed). `want` is the memory of such a buffer as `got`.
Finding check_contents(const View& view, const std::byte* got, const std::byte* want);

// Every element has these bits.
Finding check_fill(const View& view, const std::byte* got, const Element& want);

// No infinity, no NaN.
Finding check_finite(const View& view, const std::byte* got);

// "[1, 0, 3]": the index of the view's element number `i`, counted with the last dimension fastest.
std::string index_text(const View& view, std::int64_t i);

}  // namespace recoverssm::trace
