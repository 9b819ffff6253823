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
std::vector<std::byte> pattern_of(float low, float high, Convert convert) {
  std::vector<std::byte> bytes(kPattern * sizeof(T));
  std::uint32_t random = 12345;
  for (std::size_t i = 0; i < kPattern; ++i) {
    random = random * 1664525U + 1013904223U;
    const T element = convert(low + (high - low) * static_cast<float>(random >> 8) * 0x1p-24F);
    std::memcpy(&bytes[i * sizeof(T)], &element, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> pattern_of(DType dtype, float low, float high) {
  switch (dtype) {
    case DType::f32:
      return pattern_of<float>(low, high, [](float x) { return x; });
    case DType::bf16:
      return pattern_of<std::uint16_t>(low, high, [](float x) { return arithmetic::to_bf16(x); });
    case DType::f16:
      return pattern_of<std::uint16_t>(low, high, [](float x) { return arithmetic::to_f16(x); });
    default:
      throw Error({ErrorKind::invalid_argument, std::string("bench: no values of dtype ") + name_of(dtype)});
  }
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

Arena::Arena(std::size_t bytes, Device& device)
    : device_(&device), base_(static_cast<std::byte*>(device.allocate(bytes))), size_(bytes) {}

Arena::~Arena() {
  if (base_ == nullptr) return;
  if (device_ != nullptr) {
    device_->release(base_);
  } else {
    ::munmap(base_, size_);
  }
}

void* Arena::take(std::size_t bytes) {
  const std::size_t start = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (base_ == nullptr) return reinterpret_cast<void*>(kAlignment + start);
  if (used_ > size_) throw Error({ErrorKind::device_error, "bench: the arena of " + std::to_string(size_) + " bytes is full"});
  return base_ + start;
}

void* Arena::region(std::size_t bytes) {
  regions_.push_back({used_, bytes});
  return take(bytes);
}

TensorView Arena::values(DType dtype, std::initializer_list<std::int64_t> shape, float low, float high) {
  TensorView view(nullptr, dtype, shape);
  // Far from where the sums of bytes that a measuring arena makes would overflow.
  if (view.elements() > std::int64_t{1} << 52)
    throw Error({ErrorKind::invalid_argument, "bench: a tensor of more than 2^52 elements"});
  const auto n = static_cast<std::size_t>(view.elements());
  const std::size_t bytes = n * static_cast<std::size_t>(size_of(dtype));
  view.data = region(bytes);
  if (base_ == nullptr) return view;
  const std::vector<std::byte> pattern = pattern_of(dtype, low, high);
  if (device_ != nullptr) {
    device_->repeat(view.data, bytes, pattern.data(), pattern.size());
    return view;
  }
  auto* const to = static_cast<std::byte*>(view.data);
  for (std::size_t i = 0; i < bytes; i += pattern.size()) std::memcpy(to + i, pattern.data(), std::min(pattern.size(), bytes - i));
  return view;
}

TensorView Arena::ints(const std::vector<std::int32_t>& values) {
  const std::size_t bytes = values.size() * sizeof(std::int32_t);
  const TensorView view(region(bytes), DType::i32, {static_cast<std::int64_t>(values.size())});
  if (base_ == nullptr) return view;
  if (device_ != nullptr) {
    device_->upload(view.data, values.data(), bytes);
  } else {
    std::memcpy(view.data, values.data(), bytes);
  }
  return view;
}

TensorView Arena::ints(std::int64_t rows, std::int64_t columns, const std::vector<std::int32_t>& values) {
  const TensorView flat = ints(values);
  return {flat.data, DType::i32, {rows, columns}};
}

}  // namespace recoverssm::bench
