// Index contents of split_projections, the convolutions and short_conv.
#include <algorithm>

#include "contract/contents.h"
#include "contract/contents_rows.h"
#include "contract/rules.h"

namespace recoverssm {
namespace {

std::int64_t split_rows(const SplitProjectionsParams& p) { return std::min({p.qkvz.shape[0], p.ba.shape[0], p.z.shape[0]}); }

// Rows of a convolution, whose tensors are all addressed by global rows.
RowsContents conv_rows(const Rows& rows, std::int64_t capacity, std::int64_t global_rows) {
  return {.rows = rows,
          .null_block_id = rows.null_block_id,
          .capacity = capacity,
          .local_tokens = kNoLocalTensors,
          .global_rows = global_rows};
}

std::size_t conv_memory(const Rows& rows, std::int64_t global_rows) {
  return ContentsMemory::bytes(rows.state_indices.shape[0], token_memory(rows.token_index, global_rows));
}

// `row(i)` checks what a live row's line needs.
template <class Row>
Status conv_contents(const char* op, const RowsContents& rows, std::int64_t blocks, Workspace workspace, Row&& row) {
  Check check(op);
  ContentsMemory memory(workspace);
  check_offsets(check, rows);
  check_tokens(check, rows, memory);
  check_live_rows(check, rows, blocks, memory, [&](std::int64_t i, std::int32_t) { row(check, i); });
  check_shared_blocks(check, "", memory);
  return check.take();
}

Status window_contents(const char* op, const Rows& rows, std::int64_t global_rows, std::int64_t blocks, Workspace workspace) {
  return conv_contents(op, conv_rows(rows, rows.window_capacity, global_rows), blocks, workspace,
                       [&](Check& check, std::int64_t i) {
                         if (rows.num_accepted.present())
                           check_count(check, "num_accepted", i, index_at(rows.num_accepted, i), rows.window_capacity);
                       });
}

std::int64_t conv_global_rows(const TensorView& x, const TensorView& out) { return std::min(x.shape[0], out.shape[0]); }

std::int64_t short_conv_rows(const ShortConvParams& p) {
  const std::int64_t rows = conv_global_rows(p.x, p.residual);
  return p.outer_residual.present() ? std::min(rows, p.outer_residual.shape[0]) : rows;
}

}  // namespace

std::size_t contents_workspace_size(const SplitProjectionsParams& p) {
  return ContentsMemory::bytes(0, token_memory(p.token_index, split_rows(p)));
}

Status validate_contents(const SplitProjectionsParams& p, Workspace workspace) {
  Check check("split_projections");
  ContentsMemory memory(workspace);
  if (p.token_index.present())
    check_token_list(check, "token_index", p.token_index, 0, p.token_index.shape[0], split_rows(p), memory);
  return check.take();
}

std::size_t contents_workspace_size(const CausalConv1dParams& p) { return conv_memory(p.rows, conv_global_rows(p.x, p.out)); }

Status validate_contents(const CausalConv1dParams& p, Workspace workspace) {
  const std::int64_t history = p.weight.shape[1] - 1, columns = p.line.shape[1];
  return conv_contents("causal_conv1d", conv_rows(p.rows, 0, conv_global_rows(p.x, p.out)), p.line.shape[0], workspace,
                       [&](Check& check, std::int64_t i) {
                         if (!p.rows.num_accepted.present() || !starts_from_block(p.rows, i)) return;
                         check_history(check, "num_accepted", i, p.line_kind, index_at(p.rows.num_accepted, i), history, columns);
                       });
}

std::size_t contents_workspace_size(const CausalConv1dWindowParams& p) { return conv_memory(p.rows, conv_global_rows(p.x, p.out)); }

Status validate_contents(const CausalConv1dWindowParams& p, Workspace workspace) {
  return window_contents("causal_conv1d_window", p.rows, conv_global_rows(p.x, p.out), p.line.shape[0], workspace);
}

std::size_t contents_workspace_size(const ShortConvParams& p) { return conv_memory(p.rows, short_conv_rows(p)); }

Status validate_contents(const ShortConvParams& p, Workspace workspace) {
  if (p.line_kind != LineKind::plain) {
    return window_contents("short_conv", p.rows, short_conv_rows(p), p.line.shape[0], workspace);
  }
  return conv_contents("short_conv", conv_rows(p.rows, 0, short_conv_rows(p)), p.line.shape[0], workspace,
                       [](Check&, std::int64_t) {});
}

}  // namespace recoverssm
