#include "support/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "support/convert.h"

namespace support {

namespace {

std::string shown(const Index& index, int dims) {
  std::ostringstream text;
  text << "[";
  for (int d = 0; d < dims; ++d) text << (d == 0 ? "" : ", ") << index[static_cast<std::size_t>(d)];
  text << "]";
  return text.str();
}

bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

}  // namespace

// 0x7FFF in every 16-bit word: NaN as bf16, f16 and f32, 2147450879 as int32.
Memory::Memory(std::size_t bytes) : bytes_(bytes + 2 * kGuard, memory_of_calls()) {
  for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i % 2 == 0 ? 0xFF : 0x7F);
}

std::byte* element(const TensorView& view, const Index& index) {
  std::int64_t offset = 0;
  for (int d = 0; d < view.dims; ++d) {
    const auto u = static_cast<std::size_t>(d);
    if (index[u] < 0 || index[u] >= view.shape[u]) throw std::logic_error("test reads outside a view");
    offset += index[u] * view.stride[u];
  }
  return static_cast<std::byte*>(view.data) + offset * recoverssm::size_of(view.dtype);
}

void for_each(const TensorView& view, const std::function<void(const Index&)>& f) {
  if (!view.present() || view.empty()) return;
  Index index{};
  for (;;) {
    f(index);
    int d = view.dims - 1;
    for (; d >= 0; --d) {
      const auto u = static_cast<std::size_t>(d);
      if (++index[u] < view.shape[u]) break;
      index[u] = 0;
    }
    if (d < 0) return;
  }
}

TensorView slice(const TensorView& view, int dim, std::int64_t begin, std::int64_t end) {
  const auto u = static_cast<std::size_t>(dim);
  if (begin < 0 || end > view.shape[u] || begin > end) throw std::logic_error("test slices outside a view");
  TensorView part = view;
  part.data = static_cast<std::byte*>(view.data) + begin * view.stride[u] * recoverssm::size_of(view.dtype);
  part.shape[u] = end - begin;
  return part;
}

double Tensor::get_at(const Index& index) const { return decode(view.dtype, element(view, index)); }
void Tensor::set_at(double value, const Index& index) const { encode(view.dtype, value, element(view, index)); }
void Tensor::fill(double value) const {
  for_each(view, [&](const Index& index) { set_at(value, index); });
}

Tensor dense(DType dtype, const Shape& shape) {
  TensorView view;
  view.dtype = dtype;
  view.dims = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    view.shape[d] = shape[d];
    view.stride[d] = stride;
    stride *= shape[d];
  }
  auto memory = std::make_shared<Memory>(static_cast<std::size_t>(stride * recoverssm::size_of(dtype)));
  view.data = memory->data();
  return {memory, view};
}

Tensor dense_i32(const std::vector<int>& values) {
  Tensor tensor = dense(DType::i32, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(values[i], i);
  return tensor;
}

Tensor dense_bool(const std::vector<int>& values) {
  Tensor tensor = dense(DType::boolean, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(values[i], i);
  return tensor;
}

void copy_bits(const TensorView& from, const TensorView& to) {
  if (from.dims != to.dims || from.shape != to.shape || from.dtype != to.dtype) throw std::logic_error("copy_bits: views differ");
  const auto bytes = static_cast<std::size_t>(recoverssm::size_of(from.dtype));
  for_each(from, [&](const Index& index) { std::memcpy(element(to, index), element(from, index), bytes); });
}

::testing::AssertionResult same_bits(const TensorView& a, const TensorView& b, bool nan_is_nan) {
  if (a.dims != b.dims || a.shape != b.shape || a.dtype != b.dtype) {
    return ::testing::AssertionFailure() << "views of different shape or dtype compared";
  }
  std::int64_t count = 0;
  std::ostringstream first;
  for_each(a, [&](const Index& index) {
    const std::byte* x = element(a, index);
    const std::byte* y = element(b, index);
    const std::uint64_t bits_x = raw_bits(a.dtype, x);
    const std::uint64_t bits_y = raw_bits(b.dtype, y);
    if (bits_x == bits_y) return;
    if (nan_is_nan && is_float(a.dtype) && std::isnan(decode(a.dtype, x)) && std::isnan(decode(b.dtype, y))) return;
    if (count++ == 0) {
      first.precision(10);
      first << "first at " << shown(index, a.dims) << ": " << std::hex << "0x" << bits_x << " and 0x" << bits_y << std::dec;
      if (is_float(a.dtype)) first << " (" << decode(a.dtype, x) << " and " << decode(b.dtype, y) << ")";
    }
  });
  if (count == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << count << " of " << a.elements() << " elements differ, " << first.str();
}

::testing::AssertionResult all_zero_bits(const TensorView& view) {
  std::ostringstream first;
  for_each(view, [&](const Index& index) {
    const std::uint64_t bits = raw_bits(view.dtype, element(view, index));
    if (bits != 0 && first.str().empty()) first << shown(index, view.dims) << " is 0x" << std::hex << bits << ", expected +0";
  });
  if (first.str().empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << first.str();
}

Untouched::Untouched(std::vector<Watch> watches) {
  for (const Watch& watch : watches) {
    if (watch.tensor.memory == nullptr) continue;
    bool known = false;
    for (Region& region : regions_) {
      if (region.memory != watch.tensor.memory) continue;
      region.name += "+" + watch.name;
      known = true;
    }
    if (known) continue;
    const Bytes& all = watch.tensor.memory->all();
    regions_.push_back({watch.name, watch.tensor.memory, {all.begin(), all.end()}, std::vector<bool>(all.size(), false)});
  }
}

void Untouched::except(const TensorView& written) {
  if (!written.present() || written.empty()) return;
  const auto bytes = static_cast<std::size_t>(recoverssm::size_of(written.dtype));
  for (Region& region : regions_) {
    const std::byte* begin = region.memory->all().data();
    const auto* data = static_cast<const std::byte*>(written.data);
    if (data < begin || data >= begin + region.before.size()) continue;
    for_each(written, [&](const Index& index) {
      const auto at = static_cast<std::size_t>(element(written, index) - begin);
      for (std::size_t i = 0; i < bytes; ++i) region.writable[at + i] = true;
    });
    return;
  }
  throw std::logic_error("Untouched::except: not a watched tensor");
}

::testing::AssertionResult Untouched::check() const {
  for (const Region& region : regions_) {
    const Bytes& now = region.memory->all();
    if (std::equal(now.begin(), now.end(), region.before.begin(), region.before.end())) continue;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] == region.before[i] || region.writable[i]) continue;
      return ::testing::AssertionFailure() << region.name << ": byte "
                                           << static_cast<std::int64_t>(i) - static_cast<std::int64_t>(Memory::kGuard) << " of "
                                           << now.size() - 2 * Memory::kGuard << " was written and must not be";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace support
