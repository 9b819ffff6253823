// Index contents of gdn_attention: each part by itself, then what the two must not share.
#include <algorithm>

#include "contract/attention_parts.h"
#include "contract/contents.h"
#include "contract/contents_rows.h"
#include "contract/contents_rule.h"
#include "contract/rule_inputs.h"

namespace recoverssm {
namespace {

std::int64_t global_rows_of(const GdnAttentionParams& p) {
  return std::min({p.qkvz.shape[0], p.ba.shape[0], p.out.shape[0], p.z.shape[0]});
}

RowsContents part_rows(const GdnAttentionParams& p, const Name& part, const Rows& rows, std::int64_t capacity) {
  return {.part = part,
          .rows = rows,
          .null_block_id = p.null_block_id,
          .capacity = capacity,
          .local_tokens = kNoLocalTensors,
          .global_rows = global_rows_of(p)};
}
RowsContents plain_rows(const GdnAttentionParams& p) { return part_rows(p, "plain", p.plain->rows, 0); }
RowsContents window_rows(const GdnAttentionParams& p) {
  return part_rows(p, "windows", p.windows->rows, p.windows->rows.window_capacity);
}

void check_plain_contents(Check& check, const GdnAttentionParams& p, ContentsMemory& memory) {
  const RowsContents rows = plain_rows(p);
  const TensorView& pending = plain_pending(p);
  const std::int64_t capacity = pending.present() ? record_capacity(Gate::gdn, plain_records(p)) : 0;
  const std::int64_t history = p.weight.shape[1] - 1, columns = p.line.shape[1];
  const Name counts = rows.part.dot("num_accepted");
  const Name pending_name = Name(plain_borrows(p) ? "windows" : "plain").dot("pending");
  check_live_rows(check, rows, p.state.shape[0], memory, [&](std::int64_t i, std::int32_t block) {
    if (!rows.rows.num_accepted.present() || !starts_from_block(rows.rows, i)) return;
    std::int64_t count = index_at(rows.rows.num_accepted, i);
    if (pending.present()) {
      if (!check_waiting_records(check, rows, pending_name, pending, capacity, i, block)) return;
      // An anchored line moves by as many positions as records are folded.
      if (p.line_kind == LineKind::anchored) count = lazy_fold_count(static_cast<std::int32_t>(count), index_at(pending, block));
    }
    check_history(check, counts, i, p.line_kind, count, history, columns);
  });
  check_shared_blocks(check, rows.part, memory);
}

void check_window_contents(Check& check, const GdnAttentionParams& p, ContentsMemory& memory) {
  const RowsContents rows = window_rows(p);
  if (p.windows->mode == WindowMode::snapshots) {
    check_snapshot_rows(check, rows, p.state.shape[0], memory);
  } else {
    check_live_rows(check, rows, p.state.shape[0], memory, [&](std::int64_t i, std::int32_t block) {
      if (!p.windows->pending.present()) return;
      check_waiting_records(check, rows, rows.part.dot("pending"), p.windows->pending, rows.capacity, i, block);
    });
  }
  check_shared_blocks(check, rows.part, memory);
}

// Rows of the plain part keep their numbers, rows of the windows follow them.
void check_blocks_apart(Check& check, std::int64_t plain_rows, ContentsMemory& memory) {
  if (!check.ok()) return;
  const Conflict conflict = find_conflict(memory.uses());
  if (conflict.first == nullptr) return;
  const auto [plain, window] = std::minmax(conflict.first->row, conflict.second->row);
  check.out_of_range(
      Name("windows").dot("state_indices"),
      text("row ", window - plain_rows, " shares block ", conflict.first->block, " with row ", plain, " of plain.state_indices"),
      "no block in both parts");
}

// A global row belongs to one token of one part.
void check_tokens_apart(Check& check, const GdnAttentionParams& p, ContentsMemory& memory) {
  const RowsContents plain = plain_rows(p), windows = window_rows(p);
  if (!check.ok() || plain.count() == 0 || windows.count() == 0) return;
  const std::int64_t plain_begin = plain.begin(0), plain_end = plain.begin(plain.count());
  const std::int64_t windows_begin = windows.begin(0), windows_end = windows.begin(windows.count());
  const auto shared = [&](std::int64_t row) {
    if (!check.ok()) return;
    check.out_of_range(windows.part.dot("token_index"), text("row ", row, " belongs to a token of plain too"),
                       "each row in one part only (without a token_index a token's row is its number)");
  };
  const auto identity_meets = [&](std::int64_t begin, std::int64_t end, const TensorView& list, std::int64_t from,
                                  std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t) {
      const std::int32_t row = index_at(list, t);
      if (row >= begin && row < end) return shared(row);
    }
  };
  const TensorView& a = plain.rows.token_index;
  const TensorView& b = windows.rows.token_index;
  if (!a.present() && !b.present()) {
    const std::int64_t first = std::max(plain_begin, windows_begin);
    if (first < std::min(plain_end, windows_end)) shared(first);
  } else if (!a.present()) {
    identity_meets(plain_begin, plain_end, b, windows_begin, windows_end);
  } else if (!b.present()) {
    identity_meets(windows_begin, windows_end, a, plain_begin, plain_end);
  } else {
    const std::int64_t tokens = (plain_end - plain_begin) + (windows_end - windows_begin);
    if (tokens > plain.global_rows) {  // each part by itself repeats nothing, so the two must share a row
      return check.out_of_range(windows.part.dot("token_index"),
                                text(tokens, " tokens of both parts for ", plain.global_rows, " rows"),
                                "each row in one part only");
    }
    std::int32_t* const rows = memory.tokens();
    std::int32_t* end = rows;
    for (std::int64_t t = plain_begin; t < plain_end; ++t) *end++ = index_at(a, t);
    for (std::int64_t t = windows_begin; t < windows_end; ++t) *end++ = index_at(b, t);
    std::sort(rows, end);
    const std::int32_t* const found = std::adjacent_find(rows, end);
    if (found != end) shared(*found);
  }
}

}  // namespace

std::size_t contents_workspace_size(const GdnAttentionParams& p) {
  std::int64_t uses = 0, tokens = 0;
  if (p.plain) {
    uses = plus(uses, p.plain->rows.state_indices.shape[0]);
    tokens = plus(tokens, token_memory(p.plain->rows.token_index, global_rows_of(p)));
  }
  if (p.windows) {
    const TensorView& ids = p.windows->rows.state_indices;
    uses = plus(uses, p.windows->mode == WindowMode::snapshots ? times(ids.shape[0], plus(ids.shape[1], 1)) : ids.shape[0]);
    tokens = plus(tokens, token_memory(p.windows->rows.token_index, global_rows_of(p)));
  }
  return ContentsMemory::bytes(uses, tokens);
}

Status validate_contents(const GdnAttentionParams& p, Workspace workspace) {
  Check check("gdn_attention");
  ContentsMemory memory(workspace);
  if (p.plain) check_offsets(check, plain_rows(p));
  if (p.windows && check.ok()) check_offsets(check, window_rows(p));
  if (p.plain) check_tokens(check, plain_rows(p), memory);
  if (p.windows) check_tokens(check, window_rows(p), memory);
  if (p.plain && p.windows) check_tokens_apart(check, p, memory);
  if (p.plain) check_plain_contents(check, p, memory);
  if (!p.windows || !check.ok()) return check.take();
  // The windows' uses come behind the plain rows'.
  const std::int64_t plain_uses = static_cast<std::int64_t>(memory.uses().size());
  const std::int64_t plain_count = p.plain ? plain_rows(p).count() : 0;
  ContentsMemory window_memory = memory.rest();
  check_window_contents(check, p, window_memory);
  if (plain_uses > 0) {
    for (BlockUse& use : window_memory.uses()) use.row += plain_count;
    memory.join(window_memory);
    check_blocks_apart(check, plain_count, memory);
  }
  return check.take();
}

}  // namespace recoverssm
