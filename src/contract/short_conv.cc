// short_conv: shapes, strides, dtypes.
#include "recoverssm/short_conv.hpp"

#include "contract/conv_inputs.h"
#include "contract/overlap.h"
#include "contract/rows.h"

namespace recoverssm {

Status validate(const ShortConvParams& p) {
  Check check("short_conv");
  check.one_of("line_kind", p.line_kind, {LineKind::plain, LineKind::rolled, LineKind::anchored}, "plain, rolled or anchored");
  check.view("x", p.x, kFloats, {any("n"), any("C")});
  check.contiguous_last("x", p.x);
  if (!check.ok()) return check.take();
  const DType T = p.x.dtype;
  const Dim C{"C", p.x.shape[1]};
  check.view("weight", p.weight, T_or_f32(T), {C, at_least("Kc", kMinConvTaps)});
  check.at_least("dilation", p.dilation, 1);
  check.view("residual", p.residual, T, {any("m"), C});
  check.contiguous_last("residual", p.residual);
  check.optional_view("outer_residual", p.outer_residual, T, {any("m"), C});
  if (p.outer_residual.present()) check.contiguous_last("outer_residual", p.outer_residual);

  const bool plain = p.line_kind == LineKind::plain;
  check_rows(check, "", p.rows, plain ? RowsKind::plain : RowsKind::windows);
  if (plain) check.absent("num_accepted", p.rows.num_accepted, "none: plain rows of short_conv take no num_accepted");
  if (!check.ok()) return check.take();
  const std::int64_t history = times(p.weight.shape[1] - 1, p.dilation);
  check_line(check, "line", p.line, T, any("blocks"),
             plain ? history_columns(history) : window_columns(p.line_kind, history, p.rows.window_capacity), C);
  check_overlap(check, {{"x", &p.x},
                        {"weight", &p.weight},
                        {"residual", &p.residual, true},
                        {"outer_residual", &p.outer_residual},
                        {"line", &p.line, true},
                        {"query_start_loc", &p.rows.query_start_loc},
                        {"state_indices", &p.rows.state_indices},
                        {"has_initial_state", &p.rows.has_initial_state},
                        {"num_accepted", &p.rows.num_accepted},
                        {"token_index", &p.rows.token_index}});
  return check.take();
}

}  // namespace recoverssm
