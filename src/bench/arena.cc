#include "bench/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "arithmetic/rounding.h"

namespace recoverssm::bench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 64;
// A prime, so that neighbouring rows and heads differ.
constexpr std::size_t kPattern = 4093;

template <class T, class Convert>
void fill(T* to, std::size_t n, float low, float high, Convert convert) {
  T pattern[kPattern];
  std::uint32_t random = 12345;
  for (T& element : pattern) {
    random = random * 1664525U + 1013904223U;
    element = convert(low + (high - low) * static_cast<float>(random >> 8) * 0x1p-24F);
  }
  for (std::size_t i = 0; i < n; i += kPattern) std::memcpy(to + i, pattern, std::min(kPattern, n - i) * sizeof(T));
}

}  // namespace

Arena::Arena(std::size_t bytes) : size_((bytes + kHugePage - 1) / kHugePage * kHugePage) {
  // A huge page more than is used, to start at a multiple of one.
  void* map = ::mmap(nullptr, size_ + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) throw Error({ErrorKind::device_error, "bench: no memory for " + std::to_string(size_) + " bytes"});
  const auto address = reinterpret_cast<std::uintptr_t>(map);
  const std::size_t before = (kHugePage - address % kHugePage) % kHugePage;
  base_ = static_cast<std::byte*>(map) + before;
  if (before > 0) ::munmap(map, before);
  if (before < kHugePage) ::munmap(base_ + size_, kHugePage - before);
  ::madvise(base_, size_, MADV_HUGEPAGE);  // advice: without it everything works the same, with more misses of the TLB
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, size_);
}

void* Arena::take(std::size_t bytes) {
  const std::size_t start = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (base_ == nullptr) return reinterpret_cast<void*>(kAlignment + start);
  if (used_ > size_) throw Error({ErrorKind::device_error, "bench: the arena of " + std::to_string(size_) + " bytes is full"});
  return base_ + start;
}

TensorView Arena::values(DType dtype, std::initializer_list<std::int64_t> shape, float low, float high) {
  TensorView view(nullptr, dtype, shape);
  // Far from where the sums of bytes that a measuring arena makes would overflow.
  if (view.elements() > std::int64_t{1} << 52)
    throw Error({ErrorKind::invalid_argument, "bench: a tensor of more than 2^52 elements"});
  const auto n = static_cast<std::size_t>(view.elements());
  view.data = take(n * static_cast<std::size_t>(size_of(dtype)));
  if (base_ == nullptr) return view;
  switch (dtype) {
    case DType::f32:
      fill(static_cast<float*>(view.data), n, low, high, [](float x) { return x; });
      break;
    case DType::bf16:
      fill(static_cast<std::uint16_t*>(view.data), n, low, high, [](float x) { return arithmetic::to_bf16(x); });
      break;
    case DType::f16:
      fill(static_cast<std::uint16_t*>(view.data), n, low, high, [](float x) { return arithmetic::to_f16(x); });
      break;
    default:
      throw Error({ErrorKind::invalid_argument, std::string("bench: no values of dtype ") + name_of(dtype)});
  }
  return view;
}

TensorView Arena::ints(const std::vector<std::int32_t>& values) {
  const TensorView view(take(values.size() * sizeof(std::int32_t)), DType::i32, {static_cast<std::int64_t>(values.size())});
  if (base_ != nullptr) std::memcpy(view.data, values.data(), values.size() * sizeof(std::int32_t));
  return view;
}

TensorView Arena::ints(std::int64_t rows, std::int64_t columns, const std::vector<std::int32_t>& values) {
  const TensorView flat = ints(values);
  return {flat.data, DType::i32, {rows, columns}};
}

}  // namespace recoverssm::bench
