#include "contract/overlap.h"

#include <algorithm>
#include <numeric>

namespace recoverssm {
namespace {

constexpr int kMaxTerms = 2 * kMaxDims;
constexpr int kNodeBudget = 4096;

// One way for an address to vary: 0..count steps of `stride` bytes, stride > 0.
struct Term {
  std::int64_t stride = 0;
  std::int64_t count = 0;
};

// A view's bytes: base + sum of terms + 0..run-1.
struct Lattice {
  std::uint64_t base = 0;  // the lowest address; 64-bit pattern
  std::int64_t run = 0;    // bytes of a contiguous element run
  std::array<Term, kMaxDims> terms{};
  int size = 0;
  bool repeats = false;  // a zero stride with more than one element

  std::int64_t extent() const {
    std::int64_t bytes = run;
    for (int i = 0; i < size; ++i) bytes += terms[static_cast<std::size_t>(i)].stride * terms[static_cast<std::size_t>(i)].count;
    return bytes;
  }
};

template <std::size_t N>
void sort_descending(std::array<Term, N>& terms, int size) {
  // Insertion sort: at most eight terms, and the compiler sees the bounds.
  for (int i = 1; i < size; ++i) {
    for (int j = i; j > 0; --j) {
      auto& upper = terms[static_cast<std::size_t>(j - 1)];
      auto& lower = terms[static_cast<std::size_t>(j)];
      if (upper.stride >= lower.stride) break;
      std::swap(upper, lower);
    }
  }
}

// The view is not empty and passed Check::view: its extent fits well into int64.
Lattice lattice_of(const TensorView& view) {
  Lattice lattice;
  lattice.base = reinterpret_cast<std::uintptr_t>(view.data);
  lattice.run = size_of(view.dtype);
  for (int d = 0; d < view.dims; ++d) {
    const std::int64_t count = view.shape[static_cast<std::size_t>(d)] - 1;
    if (count <= 0) continue;
    std::int64_t stride = view.stride[static_cast<std::size_t>(d)] * size_of(view.dtype);
    if (stride == 0) {
      lattice.repeats = true;
      continue;
    }
    if (stride < 0) {  // count the other way, from the other end
      lattice.base += static_cast<std::uint64_t>(stride * count);
      stride = -stride;
    }
    lattice.terms[static_cast<std::size_t>(lattice.size++)] = {stride, count};
  }
  sort_descending(lattice.terms, lattice.size);
  // Dimensions that continue the contiguous run become part of it.
  while (lattice.size > 0 && lattice.terms[static_cast<std::size_t>(lattice.size - 1)].stride == lattice.run) {
    lattice.run *= lattice.terms[static_cast<std::size_t>(--lattice.size)].count + 1;
  }
  return lattice;
}

// Is there a sum of terms (each taken 0..count times) in low..high?
class Search {
 public:
  void add(const Term& term) {
    if (term.count > 0) terms_[static_cast<std::size_t>(size_++)] = term;
  }

  bool proven(std::int64_t low, std::int64_t high) {
    prepare(low, high);
    budget_ = kNodeBudget;
    return reach(0, low, high);
  }

 private:
  static std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
  static std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

  void prepare(std::int64_t& low, std::int64_t high) {
    sort_descending(terms_, size_);
    int kept = 0;
    for (int i = 0; i < size_; ++i) {  // equal strides: one term with the sum of the counts
      const Term term = terms_[static_cast<std::size_t>(i)];
      if (kept > 0 && terms_[static_cast<std::size_t>(kept - 1)].stride == term.stride) {
        terms_[static_cast<std::size_t>(kept - 1)].count += term.count;
      } else {
        terms_[static_cast<std::size_t>(kept++)] = term;
      }
    }
    // A stride no longer than the target range leaves no gaps: shifting the range down by each multiple gives one wider range.
    while (kept > 0 && terms_[static_cast<std::size_t>(kept - 1)].stride <= high - low + 1) {
      low -= terms_[static_cast<std::size_t>(kept - 1)].stride * terms_[static_cast<std::size_t>(kept - 1)].count;
      --kept;
    }
    size_ = kept;
    std::int64_t rest = 0, divisor = 0;
    for (int i = size_; i-- > 0;) {
      const auto at = static_cast<std::size_t>(i);
      rest_[at] = rest;        // the most that the smaller terms add
      divisor_[at] = divisor;  // every sum of them is a multiple of this; 0: there are none
      rest += terms_[at].stride * terms_[at].count;
      divisor = std::gcd(divisor, terms_[at].stride);
    }
  }

  bool reach(int level, std::int64_t low, std::int64_t high) {
    if (level == size_) return low <= 0 && 0 <= high;
    const auto at = static_cast<std::size_t>(level);
    const Term& term = terms_[at];
    const std::int64_t first = std::max<std::int64_t>(0, ceil_div(low - rest_[at], term.stride));
    const std::int64_t last = std::min(term.count, floor_div(high, term.stride));
    for (std::int64_t n = first; n <= last; ++n) {
      if (--budget_ < 0) return false;
      const std::int64_t from = low - n * term.stride, to = high - n * term.stride;
      const std::int64_t divisor = divisor_[at];
      if (divisor != 0 && floor_div(to, divisor) * divisor < from) continue;  // no multiple in reach
      if (reach(level + 1, from, to)) return true;
    }
    return false;
  }

  std::array<Term, kMaxTerms> terms_{};
  std::array<std::int64_t, kMaxTerms> rest_{}, divisor_{};
  int size_ = 0;
  int budget_ = 0;
};

}  // namespace

bool proven_overlap(const TensorView& a, const TensorView& b) {
  if (a.empty() || b.empty()) return false;
  Lattice low = lattice_of(a), high = lattice_of(b);
  if (low.base > high.base) std::swap(low, high);
  const std::uint64_t distance = high.base - low.base;
  if (distance >= static_cast<std::uint64_t>(low.extent())) return false;
  // low.base + (terms of low) - high.base - (terms of high) must be within -(low.run-1) .. high.run-1. The terms of `high` are counted
  // from their far end, so that all are added.
  Search search;
  std::int64_t far = 0;
  for (int i = 0; i < low.size; ++i) search.add(low.terms[static_cast<std::size_t>(i)]);
  for (int i = 0; i < high.size; ++i) {
    const Term& term = high.terms[static_cast<std::size_t>(i)];
    search.add(term);
    far += term.stride * term.count;
  }
  const std::int64_t shift = static_cast<std::int64_t>(distance) + far;
  return search.proven(shift - (low.run - 1), shift + (high.run - 1));
}

bool proven_self_overlap(const TensorView& view) {
  if (view.empty()) return false;
  const Lattice lattice = lattice_of(view);
  if (lattice.repeats) return true;
  // Two indices meet where a difference vector, not all zero, moves by less than a run. Its first nonzero entry may be taken positive.
  for (int lead = 0; lead < lattice.size; ++lead) {
    const Term& first = lattice.terms[static_cast<std::size_t>(lead)];
    Search search;
    search.add({first.stride, first.count - 1});
    std::int64_t shift = -first.stride;
    for (int i = lead + 1; i < lattice.size; ++i) {
      const Term& term = lattice.terms[static_cast<std::size_t>(i)];
      search.add({term.stride, 2 * term.count});
      shift += term.stride * term.count;
    }
    if (search.proven(shift - (lattice.run - 1), shift + (lattice.run - 1))) return true;
  }
  return false;
}

bool in_same_pages(const TensorView& a, const TensorView& b) {
  if (a.empty() || b.empty() || a.dims == 0 || b.dims == 0) return false;
  const std::int64_t page = a.stride[0] * size_of(a.dtype);
  if (page <= 0 || page != b.stride[0] * size_of(b.dtype)) return false;
  TensorView first_a = a, first_b = b;
  first_a.shape[0] = first_b.shape[0] = 1;
  const Footprint block_a = footprint_of(first_a), block_b = footprint_of(first_b);
  // There is a page that holds both first blocks.
  return std::max(block_a.high, block_b.high) - std::min(block_a.low, block_b.low) <= static_cast<std::uint64_t>(page);
}

bool same_memory(const TensorView& a, const TensorView& b) {
  if (!a.present() || !b.present() || a.dims != b.dims || a.dtype != b.dtype || a.data != b.data) return false;
  for (int d = 0; d < a.dims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (a.stride[i] != b.stride[i] && std::min(a.shape[i], b.shape[i]) > 1) return false;
  }
  return true;
}

Footprint footprint_of(const TensorView& view) {
  Footprint footprint;
  if (view.empty()) return footprint;
  const Lattice lattice = lattice_of(view);
  footprint.low = lattice.base;
  footprint.high = lattice.base + static_cast<std::uint64_t>(lattice.extent());
  if (lattice.size > 0) {
    const Term& blocks = lattice.terms[0];
    const std::int64_t inner = lattice.extent() - blocks.stride * blocks.count;
    if (inner <= blocks.stride) {
      footprint.period = static_cast<std::uint64_t>(blocks.stride);
      footprint.phase = footprint.low % footprint.period;
      footprint.inner = static_cast<std::uint64_t>(inner);
    }
  }
  return footprint;
}

bool surely_disjoint(const Footprint& a, const Footprint& b) {
  if (a.empty() || b.empty() || a.high <= b.low || b.high <= a.low) return true;
  if (a.period == 0 || a.period != b.period) return false;
  // Both repeat with the same period: walk from a's phase to b's and back again, each block must end before the other begins.
  const std::uint64_t to_b = (b.phase >= a.phase ? b.phase - a.phase : b.phase + a.period - a.phase);
  return a.inner <= to_b && b.inner <= a.period - to_b;
}

void check_alone(Check& check, const Operand& operand) {
  if (!check.ok() || !proven_self_overlap(*operand.view)) return;
  check.invalid(operand.name,
                text("shape ", list(operand.view->shape, operand.view->dims), " with strides ",
                     list(operand.view->stride, operand.view->dims), " reaches an element twice"),
                "a written view that does not overlap itself");
}

void check_pair(Check& check, const Operand& a, const Operand& b) {
  if (!check.ok() || !proven_overlap(*a.view, *b.view)) return;
  const bool groups_differ = a.cache_group >= 0 && b.cache_group >= 0 && a.cache_group != b.cache_group;
  if (groups_differ && in_same_pages(*a.view, *b.view)) return;  // which blocks they use is a question of contents
  const Operand& written = b.written ? b : a;
  const Operand& other = b.written ? a : b;
  check.invalid(written.name, text("shares elements with ", other.name.text()), "a written view that overlaps no other view");
}

}  // namespace recoverssm
