#include "trace/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace recoverssm::trace {

namespace {

// Calls visit(number, offset, other_offset) for every element of two views of one shape, the last dimension fastest: its number, and
// where it is in the views' buffers.
template <class Visit>
void for_each_pair(const View& view, const View& other, Visit&& visit) {
  if (view.elements == 0) return;
  const std::size_t dims = view.shape.size();
  const std::int64_t inner = dims == 0 ? 1 : view.shape[dims - 1];
  const std::int64_t step = dims == 0 ? 0 : view.strides[dims - 1];
  const std::int64_t other_step = dims == 0 ? 0 : other.strides[dims - 1];
  std::vector<std::int64_t> index(dims, 0);
  std::int64_t number = 0;
  std::int64_t start = view.offset;
  std::int64_t other_start = other.offset;
  while (true) {
    for (std::int64_t i = 0; i < inner; ++i) {
      // A dimension of 1 may have any stride: it is never multiplied.
      visit(number++, i == 0 ? start : start + i * step, i == 0 ? other_start : other_start + i * other_step);
    }
    if (number == view.elements) return;
    for (std::size_t d = dims - 1; d-- > 0;) {
      if (++index[d] < view.shape[d]) {
        start += view.strides[d];
        other_start += other.strides[d];
        break;
      }
      start -= (view.shape[d] - 1) * view.strides[d];
      other_start -= (other.shape[d] - 1) * other.strides[d];
      index[d] = 0;
    }
  }
}

template <class Visit>
void for_each_element(const View& view, Visit&& visit) {
  for_each_pair(view, view, [&](std::int64_t number, std::int64_t offset, std::int64_t) { visit(number, offset); });
}

// Counts elements that do not hold and tells of the first.
class Differences {
 public:
  explicit Differences(const View& view) : view_(view) {}

  void add(std::int64_t number, const std::byte* got, const std::byte* want) {
    if (count_++ > 0) return;
    first_ = fmt::format("index {}: got {}", index_text(view_, number), text_of(view_.dtype, got));
    if (want != nullptr) first_ += fmt::format(", want {}", text_of(view_.dtype, want));
  }

  Finding finding(const std::string& note = "") const {
    if (count_ == 0) return {};
    return {false, fmt::format("{}{} ({} of {} elements)", first_, note, count_, view_.elements)};
  }

 private:
  const View& view_;
  std::int64_t count_ = 0;
  std::string first_;
};

}  // namespace

std::string index_text(const View& view, std::int64_t i) {
  std::vector<std::int64_t> index(view.shape.size());
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    index[d] = i % view.shape[d];
    i /= view.shape[d];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

Finding check_bits(const View& view, const std::byte* got, const std::byte* want) {
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  const auto bytes = static_cast<std::int64_t>(size);
  Differences differences(view);
  for_each_element(view, [&](std::int64_t number, std::int64_t offset) {
    const std::byte* g = got + offset * bytes;
    const std::byte* w = want + number * bytes;
    if (std::memcmp(g, w, size) != 0) differences.add(number, g, w);
  });
  return differences.finding();
}

Finding check_tolerance(const View& view, const std::byte* got, const std::byte* want, double rtol, double atol) {
  const std::int64_t bytes = size_of(view.dtype);
  Differences differences(view);
  double max_error = 0;
  double worst = 0;  // of the elements outside their tolerance
  for_each_element(view, [&](std::int64_t number, std::int64_t offset) {
    const std::byte* g = got + offset * bytes;
    const std::byte* w = want + number * bytes;
    const double x = value_of(view.dtype, g);
    const double y = value_of(view.dtype, w);
    if (x == y || (std::isnan(x) && std::isnan(y))) return;
    const double error = std::isnan(x) || std::isnan(y) ? INFINITY : std::abs(x - y);
    max_error = std::max(max_error, error);
    if (std::isfinite(error) && error <= atol + rtol * std::abs(y)) return;
    worst = std::max(worst, error);
    differences.add(number, g, w);
  });
  Finding finding = differences.finding(fmt::format(", |got - want| up to {:.3g}, rtol {}, atol {}", worst, rtol, atol));
  finding.max_error = max_error;
  return finding;
}

Finding check_same(const View& view, const std::byte* got, const View& other, const std::byte* want) {
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  const auto bytes = static_cast<std::int64_t>(size);
  Differences differences(view);
  for_each_pair(view, other, [&](std::int64_t number, std::int64_t offset, std::int64_t other_offset) {
    const std::byte* g = got + offset * bytes;
    const std::byte* w = want + other_offset * bytes;
    if (std::memcmp(g, w, size) != 0) differences.add(number, g, w);
  });
  return differences.finding();
}

Finding check_contents(const View& view, const std::byte* got, const std::byte* want) {
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  Differences differences(view);
  for_each_element(view, [&](std::int64_t number, std::int64_t offset) {
    const std::byte* g = got + offset * static_cast<std::int64_t>(size);
    const std::byte* w = want + offset * static_cast<std::int64_t>(size);
    if (std::memcmp(g, w, size) == 0) return;
    if (is_floating(view.dtype) && std::isnan(value_of(view.dtype, g)) && std::isnan(value_of(view.dtype, w))) return;
    differences.add(number, g, w);
  });
  return differences.finding();
}

Finding check_fill(const View& view, const std::byte* got, const Element& want) {
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  Differences differences(view);
  for_each_element(view, [&](std::int64_t number, std::int64_t offset) {
    const std::byte* g = got + offset * static_cast<std::int64_t>(size);
    if (std::memcmp(g, want.data(), size) != 0) differences.add(number, g, want.data());
  });
  return differences.finding();
}

Finding check_finite(const View& view, const std::byte* got) {
  if (!is_floating(view.dtype)) return {};
  const std::int64_t bytes = size_of(view.dtype);
  Differences differences(view);
  for_each_element(view, [&](std::int64_t number, std::int64_t offset) {
    const std::byte* g = got + offset * bytes;
    if (!std::isfinite(value_of(view.dtype, g))) differences.add(number, g, nullptr);
  });
  return differences.finding(", want a finite value");
}

}  // namespace recoverssm::trace
