// What the operations compute, in float64 and in another formulation: the delta rule as a product of dense matrices, a convolution as
// a sum over one explicit sequence, a commit as "the state after c tokens of running the rule", a plan as the cases of the text.
// Nothing here is shared with the library: no header, no table, no order of operations. Data are plain vectors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace reference {

using Vector = std::vector<double>;

struct Matrix {  // rows x columns, dense
  int rows = 0;
  int columns = 0;
  Vector data;

  Matrix(int rows_, int columns_)
      : rows(rows_), columns(columns_), data(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_)) {}
  double& at(int r, int c) {
    return data[static_cast<std::size_t>(r) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)];
  }
  double at(int r, int c) const {
    return data[static_cast<std::size_t>(r) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)];
  }
};

// ---- delta rule -------------------------------------------------------------------------------------------------------------------

// Parameters of one value head.
struct Head {
  bool per_channel = false;  // kda
  double A_log = 0;
  Vector dt_bias;                     // 1 value, or K of them
  std::optional<double> lower_bound;  // kda: the bounded gate
  bool normalise = true;
  double scale = 1;
  double softplus_beta = 1;
  double softplus_threshold = 20;
};

// Inputs of one token for one value head.
struct Token {
  Vector q, k, v;
  Vector gate;  // 1 value, or K of them
  double b = 0;
};

// What one token gives.
struct Step {
  Vector out;         // V
  Vector key;         // K, as it enters the update
  Vector correction;  // V
  Vector decay;       // 1 or K
};

Vector decays(const Head& head, const Vector& gate);
double sigmoid(double x);

// S <- S diag(decay) (I - beta k k^T) + beta v k^T as full matrix products; out = S q. S is V x K.
Step advance(const Head& head, const Token& token, Matrix& state);

// The same through rank-one updates, for sizes where K x K products take too long. A test holds the two together.
Step advance_rank_one(const Head& head, const Token& token, Matrix& state);

// ---- convolutions -----------------------------------------------------------------------------------------------------------------

// Outputs of one channel for the inputs behind a history: sequence = history (taps-1 values) ++ inputs.
Vector convolve(const Vector& sequence, const Vector& taps, double bias, bool silu);

// How far a float32 evaluation of the same sum may be off: the sum of the absolute products.
Vector convolve_magnitude(const Vector& sequence, const Vector& taps, double bias);

// Short convolution of one channel: sequence = history ((taps-1)*dilation values) ++ inputs. `store` rounds to the activation dtype.
// Returns silu(sum), rounded.
Vector short_convolve(const Vector& sequence, const Vector& taps, int dilation, const std::function<double(double)>& store);

// Conv lines, one channel, as raw bits. `history` positions, window inputs of one row.
using Line = std::vector<std::uint64_t>;
enum class Kind { rolled, anchored };

// The history that a row of the given count starts from.
Line history_of(const Line& line, int history, Kind kind, int accepted);
// The line after a window of inputs.
Line line_after_window(const Line& line, int history, Kind kind, int accepted, const Line& inputs);
// The line after a plain row.
Line line_after_plain(const Line& line, const Line& history, const Line& inputs);
// The history after `kept` tokens of the window whose inputs are in the line.
Line committed_history(const Line& line, int history, Kind kind, int kept);

// ---- plan -------------------------------------------------------------------------------------------------------------------------

struct PlanRow {
  int accepted = 0;
  int length = 0;
  int capacity = 0;
  int source = 0;
  int null_id = 0;
  bool align = false;
  long long computed = 0;
  int block_size = 0;
  std::vector<int> table;  // the request's row
};

struct Plan {
  bool out_of_range = false;
  int commit_len = 0;
  int final_block = 0;
  int boundary_block = 0;
  int boundary_len = 0;
};

Plan plan(const PlanRow& row);

}  // namespace reference
