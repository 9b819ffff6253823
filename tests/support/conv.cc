#include "support/conv.h"

#include <sstream>

#include "support/convert.h"

namespace support {

using recoverssm::LineKind;

std::string ConvShape::text() const {
  std::ostringstream text;
  text << "C " << C << " W " << W << " S " << S << " T " << name_of(T) << " weight " << name_of(weight) << " bias "
       << (has_bias ? name_of(bias) : "-") << " silu " << silu << " in place " << in_place << " columns " << columns
       << (kind == LineKind::anchored ? " anchored" : " rolled");
  return text.str();
}

ConvShape random_conv_shape(Pick& pick, int capacity) {
  ConvShape shape;
  shape.C = pick.chance(40) ? pick.one_of({8, 16, 31, 64, 255, 257, 300}) : pick.between(1, 40);
  shape.W = pick.between(2, 8);
  shape.S = capacity;
  shape.T = pick.one_of({DType::f32, DType::bf16, DType::f16});
  shape.weight = pick.one_of({DType::f32, shape.T});
  shape.bias = pick.one_of({DType::f32, shape.T});
  shape.has_bias = pick.chance(60);
  shape.silu = pick.chance(60);
  shape.in_place = pick.chance(40);
  shape.kind = pick.one_of({LineKind::rolled, LineKind::anchored});
  const int needed = shape.W - 1 + (capacity == 0 ? 0 : shape.kind == LineKind::anchored ? capacity : capacity - 1);
  shape.columns = needed + (pick.chance(40) ? pick.between(1, 4) : 0);
  return shape;
}

ConvWeights random_conv_weights(Pick& pick, const ConvShape& shape) {
  ConvWeights weights;
  weights.weight = strided(pick, shape.weight, {shape.C, shape.W}, 0);
  for_each(weights.weight, [&](const Index& i) { weights.weight.set_at(pick.normal() * 0.5, i); });
  if (shape.has_bias) {
    weights.bias = strided(pick, shape.bias, {shape.C}, 0);
    for_each(weights.bias, [&](const Index& i) { weights.bias.set_at(pick.normal(), i); });
  }
  return weights;
}

ConvData random_conv_data(Pick& pick, const ConvShape& shape, const RowSet& rows) {
  ConvData data;
  data.x = strided(pick, shape.T, {rows.global_rows, shape.C}, 1);
  for_each(data.x, [&](const Index& i) { data.x.set_at(pick.normal(), i); });
  data.out = shape.in_place ? data.x : strided(pick, shape.T, {rows.global_rows, shape.C}, 1);
  data.line = strided(pick, shape.T, {rows.pool_blocks, shape.columns, shape.C}, 0);
  for_each(data.line, [&](const Index& i) { data.line.set_at(pick.normal(), i); });
  return data;
}

ConvData another_conv_data(Pick& pick, const ConvShape& shape, const ConvData& data) {
  ConvData copy;
  copy.x = another_layout(pick, data.x, 1);
  copy.out = shape.in_place ? copy.x : another_layout(pick, data.out, 1);
  copy.line = another_layout(pick, data.line, 0);
  return copy;
}

recoverssm::Status try_conv(Pick& pick, const ConvShape& shape, const ConvWeights& weights, const RowSet& rows,
                            const ConvData& data, const How& how) {
  const RowTensors index = row_tensors(pick, rows);
  const auto fill = [&](auto params) {
    params.x = data.x;
    params.weight = weights.weight;
    params.bias = weights.bias;
    params.activation = shape.silu ? recoverssm::Activation::silu : recoverssm::Activation::none;
    params.out = data.out;
    params.line = data.line;
    params.line_kind = shape.kind;
    params.rows = rows_of(rows, index);
    return try_run(params, how);
  };
  return shape.S > 0 ? fill(recoverssm::CausalConv1dWindowParams{}) : fill(recoverssm::CausalConv1dParams{});
}

ConvData run_conv(Pick& pick, const ConvShape& shape, const ConvWeights& weights, const RowSet& rows, const ConvData& start,
                  const How& how) {
  const ConvData data = another_conv_data(pick, shape, start);
  const recoverssm::Status status = try_conv(pick, shape, weights, rows, data, how);
  require(status.ok(), "conv: " + status.message);
  return data;
}

reference::Line line_bits(const Tensor& line, int block, int channel) {
  reference::Line bits;
  for (std::int64_t p = 0; p < line.view.shape[1]; ++p) bits.push_back(raw_bits(line.dtype(), line.at(block, p, channel)));
  return bits;
}

reference::Vector values_of(const reference::Line& bits, DType dtype) {
  reference::Vector values;
  for (const std::uint64_t b : bits) values.push_back(decode(dtype, &b));
  return values;
}

}  // namespace support
