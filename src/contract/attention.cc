// gdn_attention: shapes, strides, dtypes, and which arguments of the two parts go together.
#include "recoverssm/attention.hpp"

#include "contract/attention_parts.h"
#include "contract/conv_inputs.h"
#include "contract/overlap.h"
#include "contract/packed.h"
#include "contract/rows.h"
#include "contract/rule_inputs.h"

namespace recoverssm {
namespace {

RecordSizes record_sizes(const GdnAttentionParams& p, const HeadSizes& s, const Dim& S) {
  return {p.state.shape[0], s.HV, s.V, s.K, S};
}

void check_snapshots(Check& check, const Name& part, const AttentionWindowPart& windows) {
  // Table and counts mean something only together; a part that has one of them names both.
  if (check.ok() && windows.rows.state_indices.present() != windows.rows.num_accepted.present()) {
    const bool table = windows.rows.state_indices.present();
    check.invalid(part.dot(table ? "num_accepted" : "state_indices"),
                  text("missing beside ", table ? "state_indices" : "num_accepted"),
                  "state_indices [N, S] and num_accepted [N] together in mode snapshots");
  }
  check_rows(check, part, windows.rows, RowsKind::snapshots);
  check.absent(part.dot("pending"), windows.pending, "none in mode snapshots");
  if (check.ok() && windows.records.present()) check.invalid(part.dot("records"), "given", "none in mode snapshots");
}

void check_verify(Check& check, const Name& part, const GdnAttentionParams& p, const HeadSizes& s) {
  const AttentionWindowPart& windows = *p.windows;
  check_rows(check, part, windows.rows, RowsKind::windows);
  check_records(check, part.dot("records"), windows.records, Gate::gdn, kFloats,
                record_sizes(p, s, {"window_capacity", windows.rows.window_capacity}));
  if (windows.pending.present()) {
    if (check.ok()) check_pending(check, part.dot("pending"), windows.pending, p.state.shape[0]);
    check.required(part.dot("num_accepted"), windows.rows.num_accepted,
                   "[N] of i32 beside pending: the counts of the previous window");
  } else {
    check.absent(part.dot("num_accepted"), windows.rows.num_accepted, "none without pending in mode verify");
  }
}

void check_windows(Check& check, const GdnAttentionParams& p, const HeadSizes& s) {
  const Name part = "windows";
  check.one_of(part.dot("mode"), p.windows->mode, {WindowMode::snapshots, WindowMode::verify}, "snapshots or verify");
  check.at_least(part.dot("window_capacity"), p.windows->rows.window_capacity, 1);
  if (p.windows->mode == WindowMode::snapshots) {
    check_snapshots(check, part, *p.windows);
  } else {
    check_verify(check, part, p, s);
  }
}

void check_plain(Check& check, const GdnAttentionParams& p, const HeadSizes& s) {
  const Name part = "plain", pending = part.dot("pending"), records = part.dot("records");
  check_rows(check, part, p.plain->rows, RowsKind::plain);
  if (!check.ok()) return;
  if (p.windows) {
    const auto differ = [](const TensorView& a, const TensorView& b) { return a.present() && b.present() && !same_memory(a, b); };
    if (differ(p.plain->pending, p.windows->pending)) {
      return check.invalid(pending, "another tensor than windows.pending", "the same one, or none");
    }
    if (differ(p.plain->records.packed, p.windows->records.packed)) {
      return check.invalid(records, "another tensor than windows.records", "the same one, or none");
    }
  }
  if (plain_pending(p).present()) {
    check_pending(check, pending, plain_pending(p), p.state.shape[0]);
    check_records(check, records, plain_records(p), Gate::gdn, kFloats, record_sizes(p, s, at_least("S", 1)));
    check.required(part.dot("num_accepted"), p.plain->rows.num_accepted,
                   "[N] of i32 beside pending: it says how many waiting records are kept");
  } else if (p.plain->records.present()) {
    check.invalid(records, "given", "none without pending");
  }
}

// The operands of one part's rows.
constexpr std::int64_t kRowViews = 5;
Operand row_operand(const Name& part, const Rows& rows, std::int64_t i) {
  switch (i) {
    case 0:
      return {part.dot("query_start_loc"), &rows.query_start_loc};
    case 1:
      return {part.dot("state_indices"), &rows.state_indices};
    case 2:
      return {part.dot("has_initial_state"), &rows.has_initial_state};
    case 3:
      return {part.dot("num_accepted"), &rows.num_accepted};
    default:
      return {part.dot("token_index"), &rows.token_index};
  }
}

void check_attention_overlap(Check& check, const GdnAttentionParams& p) {
  if (!check.ok()) return;
  const bool verify = p.windows && p.windows->mode == WindowMode::verify;
  const bool state_written = p.plain || !verify || lazy_windows(p);
  // Where both parts name pending and records they are the same; they are looked at once.
  const char* owner = verify && p.windows->records.present() ? "windows" : "plain";
  const TensorView* pending = lazy_windows(p) ? &p.windows->pending : p.plain ? &p.plain->pending : nullptr;
  const TensorView* records = verify ? &p.windows->records.packed : p.plain ? &p.plain->records.packed : nullptr;
  const Operand tensors[] = {{"qkvz", &p.qkvz},
                             {"ba", &p.ba},
                             {"weight", &p.weight},
                             {"bias", &p.bias},
                             {"A_log", &p.A_log},
                             {"dt_bias", &p.dt_bias},
                             {"line", &p.line, true},
                             {"state", &p.state, state_written},
                             {"out", &p.out, true},
                             {"z", &p.z, true},
                             {Name(lazy_windows(p) ? "windows" : "plain").dot("pending"), pending, true},
                             {Name(owner).dot("records"), records, verify}};
  constexpr std::int64_t kTensors = std::size(tensors);
  check_overlap(check, kTensors + 2 * kRowViews, [&](std::int64_t i) -> Operand {
    if (i < kTensors) return tensors[i];
    i -= kTensors;
    if (i < kRowViews) return p.plain ? row_operand("plain", p.plain->rows, i) : Operand{};
    return p.windows ? row_operand("windows", p.windows->rows, i - kRowViews) : Operand{};
  });
}

}  // namespace

Status validate(const GdnAttentionParams& p) {
  Check check("gdn_attention");
  const HeadSizes s = check_packed(check, {p.qkvz, p.ba, p.layout, p.num_k_heads, p.num_v_heads, p.head_k_dim, p.head_v_dim});
  if (!check.ok()) return check.take();
  const DType T = p.qkvz.dtype;
  const Dim C{"C = 2*H*K + HV*V", conv_channels(s)};
  check_taps(check, p.weight, p.bias, T, C.size);
  check_activation(check, p.activation);
  const std::optional<float> no_bound;
  const GateParameters gate{Gate::gdn, p.A_log, p.dt_bias, no_bound, p.softplus_beta, p.softplus_threshold};
  check_gate_tensors(check, "", gate, T_or_f32(T), s.HV, s.K);
  check_gate_scalars(check, "", gate);
  if (p.scale) check.finite("scale", *p.scale);
  check_state(check, "state", p.state, {"HV", s.HV}, {"V", s.V}, {"K", s.K});
  check_head_rows(check, "out", p.out, T_or_f32(T), any("m"), s.HV, s.V);
  check_head_rows(check, "z", p.z, T, any("n"), s.HV, s.V);
  check_line_kind(check, "line_kind", p.line_kind);
  if (p.windows) check_windows(check, p, s);
  if (p.plain) check_plain(check, p, s);
  if (!check.ok()) return check.take();
  const std::int64_t history = p.weight.shape[1] - 1;
  check_line(check, "line", p.line, T, {"blocks", p.state.shape[0]},
             p.windows ? window_columns(p.line_kind, history, p.windows->rows.window_capacity) : history_columns(history), C);
  check_attention_overlap(check, p);
  return check.take();
}

}  // namespace recoverssm
