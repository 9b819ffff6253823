// causal_conv1d and causal_conv1d_window: shapes, strides, dtypes.
#include "recoverssm/conv.hpp"

#include <algorithm>

#include "contract/conv_inputs.h"
#include "contract/overlap.h"
#include "contract/rows.h"

namespace recoverssm {
namespace {

// x, weight, bias, activation, out, line and rows, which both operations have.
template <class Params>
void check_conv(Check& check, const Params& p, RowsKind kind) {
  check.view("x", p.x, kFloats, {any("n"), any("C")});
  check.contiguous_last("x", p.x);
  if (!check.ok()) return;
  const DType T = p.x.dtype;
  const Dim C{"C", p.x.shape[1]};
  check_taps(check, p.weight, p.bias, T, C.size);
  check_activation(check, p.activation);
  check.view("out", p.out, T, {any("n"), C});
  check.contiguous_last("out", p.out);
  check_line_kind(check, "line_kind", p.line_kind);
  check_rows(check, "", p.rows, kind);
  if (!check.ok()) return;
  const std::int64_t history = p.weight.shape[1] - 1;
  const bool windows = kind == RowsKind::windows;
  check_line(check, "line", p.line, T, any("blocks"),
             windows ? window_columns(p.line_kind, history, p.rows.window_capacity) : history_columns(history), C);
}

template <class Params>
void check_conv_overlap(Check& check, const Params& p) {
  if (!check.ok()) return;
  // In place, out is exactly x. One view with the rows of both then stands for the two.
  const bool in_place = same_memory(p.x, p.out);
  TensorView out = p.out;
  if (in_place) out.shape[0] = std::max(p.x.shape[0], p.out.shape[0]);
  if (in_place && p.x.shape[0] > p.out.shape[0]) out.stride = p.x.stride;
  check_overlap(check, {{"x", in_place ? nullptr : &p.x},
                        {"weight", &p.weight},
                        {"bias", &p.bias},
                        {"out", &out, true},
                        {"line", &p.line, true},
                        {"query_start_loc", &p.rows.query_start_loc},
                        {"state_indices", &p.rows.state_indices},
                        {"has_initial_state", &p.rows.has_initial_state},
                        {"num_accepted", &p.rows.num_accepted},
                        {"token_index", &p.rows.token_index}});
}

}  // namespace

Status validate(const CausalConv1dParams& p) {
  Check check("causal_conv1d");
  check_conv(check, p, RowsKind::plain);
  check_conv_overlap(check, p);
  return check.take();
}

Status validate(const CausalConv1dWindowParams& p) {
  Check check("causal_conv1d_window");
  check_conv(check, p, RowsKind::windows);
  check_conv_overlap(check, p);
  return check.take();
}

}  // namespace recoverssm
