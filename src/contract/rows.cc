#include "contract/rows.h"

namespace recoverssm {

void check_indices(Check& check, const Name& name, const TensorView& view, const Dim& length) {
  check.view(name, view, DType::i32, {length});
}

void check_optional_indices(Check& check, const Name& name, const TensorView& view, const Dim& length) {
  check.optional_view(name, view, DType::i32, {length});
}

void check_rows(Check& check, const Name& part, const Rows& rows, RowsKind kind) {
  check_indices(check, part.dot("query_start_loc"), rows.query_start_loc, at_least("N+1", 1));
  if (!check.ok()) return;
  const Dim N{"N", row_count(rows)};
  const Name state_indices = part.dot("state_indices");
  if (kind == RowsKind::snapshots) {
    check.view(state_indices, rows.state_indices, DType::i32, {N, at_least("S", 1)});
    if (check.ok() && rows.window_capacity != 0 && rows.window_capacity != rows.state_indices.shape[1]) {
      check.invalid(state_indices, text("last dimension ", rows.state_indices.shape[1]),
                    text("window_capacity = ", rows.window_capacity));
    }
    check.required(part.dot("num_accepted"), rows.num_accepted, "[N] of i32: it selects the start column of state_indices");
  } else {
    check_indices(check, state_indices, rows.state_indices, N);
  }
  check_optional_indices(check, part.dot("num_accepted"), rows.num_accepted, N);
  if (kind == RowsKind::plain) {
    check.optional_view(part.dot("has_initial_state"), rows.has_initial_state, DType::boolean, {N});
  } else {
    check.absent(part.dot("has_initial_state"), rows.has_initial_state, "none: windows start from their block");
  }
  if (kind == RowsKind::windows) check.at_least(part.dot("window_capacity"), rows.window_capacity, 1);
  check_optional_indices(check, part.dot("token_index"), rows.token_index, any("tokens"));
}

}  // namespace recoverssm
