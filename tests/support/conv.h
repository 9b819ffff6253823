// Convolution calls: random shapes, weights, lines and activations.
#pragma once

#include <string>

#include "recoverssm/conv.hpp"
#include "reference/reference.h"
#include "support/call.h"
#include "support/rows.h"

namespace support {

struct ConvShape {
  int C = 1, W = 4, S = 0;  // S 0: plain rows
  DType T = DType::f32;
  DType weight = DType::f32, bias = DType::f32;
  bool has_bias = false;
  bool silu = false;
  bool in_place = false;
  recoverssm::LineKind kind = recoverssm::LineKind::rolled;
  int columns = 3;

  reference::Kind reference_kind() const {
    return kind == recoverssm::LineKind::anchored ? reference::Kind::anchored : reference::Kind::rolled;
  }
  std::string text() const;
};

// `capacity` 0: plain rows. The line has room for windows of `capacity` tokens, and sometimes more.
ConvShape random_conv_shape(Pick& pick, int capacity);

struct ConvWeights {
  Tensor weight, bias;
};
ConvWeights random_conv_weights(Pick& pick, const ConvShape& shape);

// Activations and lines. Out starts as NaN; in place it is x.
struct ConvData {
  Tensor x, out, line;
};
ConvData random_conv_data(Pick& pick, const ConvShape& shape, const RowSet& rows);
// The same bits in another layout.
ConvData another_conv_data(Pick& pick, const ConvShape& shape, const ConvData& data);

// The call on the data as they lie.
recoverssm::Status try_conv(Pick& pick, const ConvShape& shape, const ConvWeights& weights, const RowSet& rows,
                            const ConvData& data, const How& how);
// Runs the convolution on a copy of `start` in another layout and returns it. In place, x of the result is the output.
ConvData run_conv(Pick& pick, const ConvShape& shape, const ConvWeights& weights, const RowSet& rows, const ConvData& start,
                  const How& how);

// One channel of a block's line, as bits and as values.
reference::Line line_bits(const Tensor& line, int block, int channel);
reference::Vector values_of(const reference::Line& bits, DType dtype);

}  // namespace support
