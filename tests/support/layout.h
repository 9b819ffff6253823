// Random strides. Every tensor a test builds takes a layout the contract allows: padded and swapped outer dimensions, an odd start,
// several tensors interleaved in one page or one row. What lies between the elements keeps the pattern and may never change.
#pragma once

#include "support/property.h"
#include "support/tensor.h"

namespace support {

// A tensor with free strides but for its last `contiguous` dimensions, which are dense and in order.
Tensor strided(Pick& pick, DType dtype, const Shape& shape, int contiguous);

// int32 index data with a random stride, as a column of a wider table.
Tensor strided_i32(Pick& pick, const std::vector<int>& values);
Tensor strided_bool(Pick& pick, const std::vector<int>& values);
// [rows][columns], any strides.
Tensor strided_table(Pick& pick, const std::vector<std::vector<int>>& rows, int columns);

// One tensor of a page or a fused row: its shape without the leading dimension.
struct Part {
  DType dtype = DType::f32;
  Shape shape;
  int contiguous = 1;
};

// `leading` pages (or rows), each holding all parts one behind the other in random order with gaps: tensors of shape
// [leading, part...] in one allocation, with one leading stride in bytes.
std::vector<Tensor> interleaved(Pick& pick, std::int64_t leading, const std::vector<Part>& parts);

// The same tensors, either interleaved or each for itself.
std::vector<Tensor> strided_or_interleaved(Pick& pick, std::int64_t leading, const std::vector<Part>& parts);

// A copy of a tensor's bits in another random layout.
Tensor another_layout(Pick& pick, const Tensor& tensor, int contiguous);

}  // namespace support
