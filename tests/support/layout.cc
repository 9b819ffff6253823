#include "support/layout.h"

#include <algorithm>
#include <numeric>

#include "support/convert.h"

namespace support {

namespace {

struct Strides {
  Shape stride;
  std::int64_t extent = 0;  // elements from the first to behind the last
};

Strides random_strides(Pick& pick, const Shape& shape, int contiguous) {
  const int dims = static_cast<int>(shape.size());
  Strides s{Shape(shape.size()), 1};
  for (int d = dims - 1; d >= dims - contiguous; --d) {
    s.stride[static_cast<std::size_t>(d)] = s.extent;
    s.extent *= shape[static_cast<std::size_t>(d)];
  }
  std::vector<int> outer(static_cast<std::size_t>(dims - contiguous));
  std::iota(outer.rbegin(), outer.rend(), 0);  // the usual order, innermost first
  if (outer.size() > 1 && pick.chance(40)) {
    const std::vector<int> order = pick.permutation(static_cast<int>(outer.size()));
    std::vector<int> swapped;
    for (const int i : order) swapped.push_back(outer[static_cast<std::size_t>(i)]);
    outer = swapped;
  }
  for (const int d : outer) {
    const std::int64_t stride = s.extent + (pick.chance(50) ? pick.between(1, 5) : 0);
    s.stride[static_cast<std::size_t>(d)] = stride;
    const std::int64_t n = shape[static_cast<std::size_t>(d)];
    s.extent = n == 0 ? 0 : stride * (n - 1) + s.extent;
  }
  return s;
}

TensorView view_of(std::byte* data, DType dtype, const Shape& shape, const Shape& stride) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.dims = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  std::copy(stride.begin(), stride.end(), view.stride.begin());
  return view;
}

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

}  // namespace

Tensor strided(Pick& pick, DType dtype, const Shape& shape, int contiguous) {
  const Strides s = random_strides(pick, shape, contiguous);
  const std::int64_t size = recoverssm::size_of(dtype);
  const std::int64_t start = pick.between(0, 3) * size;
  auto memory = std::make_shared<Memory>(static_cast<std::size_t>(start + s.extent * size));
  return {memory, view_of(memory->data() + start, dtype, shape, s.stride)};
}

Tensor strided_i32(Pick& pick, const std::vector<int>& values) {
  const Tensor tensor = strided(pick, DType::i32, {static_cast<std::int64_t>(values.size())}, 0);
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(values[i], i);
  return tensor;
}

Tensor strided_bool(Pick& pick, const std::vector<int>& values) {
  const Tensor tensor = strided(pick, DType::boolean, {static_cast<std::int64_t>(values.size())}, 0);
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(values[i], i);
  return tensor;
}

Tensor strided_table(Pick& pick, const std::vector<std::vector<int>>& rows, int columns) {
  const Tensor tensor = strided(pick, DType::i32, {static_cast<std::int64_t>(rows.size()), columns}, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows[i].size(); ++j) tensor.set(rows[i][j], i, j);
  }
  return tensor;
}

std::vector<Tensor> interleaved(Pick& pick, std::int64_t leading, const std::vector<Part>& parts) {
  std::vector<Strides> strides;
  std::vector<std::int64_t> start(parts.size());
  std::int64_t alignment = 1;
  for (const Part& part : parts) alignment = std::max(alignment, recoverssm::size_of(part.dtype));
  std::int64_t page = 0;
  for (const Part& part : parts) strides.push_back(random_strides(pick, part.shape, part.contiguous));
  for (const int i : pick.permutation(static_cast<int>(parts.size()))) {
    const auto u = static_cast<std::size_t>(i);
    const std::int64_t size = recoverssm::size_of(parts[u].dtype);
    start[u] = round_up(page, size) + size * pick.between(0, 2);
    page = start[u] + strides[u].extent * size;
  }
  page = round_up(page, alignment) + alignment * pick.between(0, 3);
  auto memory = std::make_shared<Memory>(static_cast<std::size_t>(page * leading));
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Shape shape = parts[i].shape;
    Shape stride = strides[i].stride;
    shape.insert(shape.begin(), leading);
    stride.insert(stride.begin(), page / recoverssm::size_of(parts[i].dtype));
    tensors.push_back({memory, view_of(memory->data() + start[i], parts[i].dtype, shape, stride)});
  }
  return tensors;
}

std::vector<Tensor> strided_or_interleaved(Pick& pick, std::int64_t leading, const std::vector<Part>& parts) {
  if (pick.chance(60)) return interleaved(pick, leading, parts);
  std::vector<Tensor> tensors;
  for (const Part& part : parts) {
    Shape shape = part.shape;
    shape.insert(shape.begin(), leading);
    tensors.push_back(strided(pick, part.dtype, shape, part.contiguous));
  }
  return tensors;
}

Tensor another_layout(Pick& pick, const Tensor& tensor, int contiguous) {
  if (!tensor.present()) return {};
  const Shape shape(tensor.view.shape.begin(), tensor.view.shape.begin() + tensor.view.dims);
  const Tensor copy = strided(pick, tensor.dtype(), shape, contiguous);
  copy_bits(tensor, copy);
  return copy;
}

}  // namespace support
