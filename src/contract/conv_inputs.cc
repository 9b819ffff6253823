#include "contract/conv_inputs.h"

#include <algorithm>

#include "contract/rules.h"

namespace recoverssm {

void check_activation(Check& check, Activation activation) {
  check.one_of("activation", activation, {Activation::none, Activation::silu}, "silu or none");
}

void check_taps(Check& check, const TensorView& weight, const TensorView& bias, DType T, std::int64_t C) {
  check.view("weight", weight, T_or_f32(T), {{"C", C}, any("W")});
  if (!check.ok()) return;
  const std::int64_t W = weight.shape[1];
  if (W < kMinConvTaps || W > kMaxConvTaps) {
    return check.invalid("weight", text("last dimension ", W), text("W = ", kMinConvTaps, "..", kMaxConvTaps, " taps"));
  }
  check.optional_view("bias", bias, T_or_f32(T), {{"C", C}});
}

void check_line_kind(Check& check, const Name& name, LineKind kind) {
  check.one_of(name, kind, {LineKind::rolled, LineKind::anchored}, "rolled or anchored");
}

void check_line(Check& check, const Name& name, const TensorView& line, DTypes dtypes, const Dim& blocks, const Dim& columns,
                const Dim& C) {
  check.view(name, line, dtypes, {blocks, columns, C});
}

Dim history_columns(std::int64_t history) { return at_least("the history's columns", history); }

Dim window_columns(LineKind kind, std::int64_t history, std::int64_t capacity) {
  const std::int64_t columns = line_columns(kind, std::min(history, INT64_MAX / 2), capacity);  // no view is that large
  return at_least(kind == LineKind::anchored ? "history + S columns (anchored line)" : "history + S-1 columns (rolled line)",
                  columns);
}

}  // namespace recoverssm
