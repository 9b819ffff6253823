#include "contract/contents_rows.h"

#include <algorithm>
#include <tuple>

namespace recoverssm {

std::size_t ContentsMemory::bytes(std::int64_t block_uses, std::int64_t tokens) {
  const std::int64_t uses = times(block_uses, sizeof(BlockUse)), entries = times(tokens, sizeof(std::int32_t));
  return static_cast<std::size_t>(std::max(uses, entries));
}

Conflict find_conflict(std::span<BlockUse> uses) {
  std::sort(uses.begin(), uses.end(), [](const BlockUse& a, const BlockUse& b) {
    return std::tie(a.block, a.row, a.once) < std::tie(b.block, b.row, b.once);
  });
  for (std::size_t begin = 0; begin < uses.size();) {
    std::size_t end = begin + 1;
    const BlockUse* claim = uses[begin].claims ? &uses[begin] : nullptr;
    for (; end < uses.size() && uses[end].block == uses[begin].block; ++end) {
      const BlockUse& before = uses[end - 1];
      if (before.row == uses[end].row && before.once && uses[end].once) return {&before, &uses[end]};
      if (claim == nullptr && uses[end].claims) claim = &uses[end];
    }
    const BlockUse& first = uses[begin];
    const BlockUse& last = uses[end - 1];
    if (claim != nullptr && first.row != last.row) return {claim, claim->row == last.row ? &first : &last};
    begin = end;
  }
  return {};
}

void check_offsets(Check& check, const RowsContents& r) {
  if (r.count() == 0) return;
  const Name name = r.part.dot("query_start_loc");
  if (r.begin(0) < 0) return check.out_of_range(name, text("entry 0 is ", r.begin(0)), "at least 0");
  for (std::int64_t i = 0; i < r.count(); ++i) {
    if (r.length(i) < 0) {
      return check.out_of_range(name, text("entry ", i + 1, " is ", r.begin(i + 1), " after ", r.begin(i)),
                                "offsets that do not decrease");
    }
    if (r.capacity > 0 && r.length(i) > r.capacity) {
      return check.out_of_range(name, text("row ", i, " has ", r.length(i), " tokens"),
                                text("at most window_capacity = ", r.capacity));
    }
  }
  const std::int64_t last = r.begin(r.count());
  const TensorView& token_index = r.rows.token_index;
  const std::int64_t room = token_index.present() ? r.local_tokens : std::min(r.local_tokens, r.global_rows);
  if (last > room) {
    return check.out_of_range(name, text("last offset ", last), text("at most ", room, ", the tokens that the tensors hold"));
  }
  if (token_index.present() && last > token_index.shape[0]) {
    check.out_of_range(r.part.dot("token_index"), text("length ", token_index.shape[0]),
                       text("at least query_start_loc's last offset ", last));
  }
}

std::int64_t token_memory(const TensorView& token_index, std::int64_t global_rows) {
  return token_index.present() ? std::min(token_index.shape[0], global_rows) : 0;
}

void check_tokens(Check& check, const RowsContents& r, ContentsMemory& memory) {
  if (!check.ok() || !r.rows.token_index.present() || r.count() == 0) return;
  check_token_list(check, r.part.dot("token_index"), r.rows.token_index, r.begin(0), r.begin(r.count()), r.global_rows, memory);
}

void check_token_list(Check& check, const Name& name, const TensorView& token_index, std::int64_t begin, std::int64_t end,
                      std::int64_t global_rows, ContentsMemory& memory) {
  bool rising = true;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int32_t row = index_at(token_index, t);
    if (row < 0 || row >= global_rows) {
      return check.out_of_range(name, text("entry ", t, " is ", row), text("a row 0..", global_rows - 1));
    }
    if (t > begin && row <= index_at(token_index, t - 1)) rising = false;
  }
  if (rising) return;  // nothing is listed twice
  const auto twice = [&](std::int32_t row) {
    check.out_of_range(name, text("row ", row, " is listed twice"), "each row at most once");
  };
  if (end - begin > global_rows) {  // more tokens than rows; the memory is made for as many as there are rows
    return check.out_of_range(name, text(end - begin, " tokens for ", global_rows, " rows"), "each row at most once");
  }
  std::int32_t* const rows = memory.tokens();
  for (std::int64_t t = begin; t < end; ++t) rows[t - begin] = index_at(token_index, t);
  std::sort(rows, rows + (end - begin));
  const std::int32_t* const found = std::adjacent_find(rows, rows + (end - begin));
  if (found != rows + (end - begin)) twice(*found);
}

bool check_block(Check& check, const Name& name, std::int64_t row, std::int32_t block, std::int64_t blocks) {
  if (block >= 0 && block < blocks) return true;
  check.out_of_range(name, text("row ", row, " has block ", block), text("a block 0..", blocks - 1, ", or null"));
  return false;
}

bool check_count(Check& check, const Name& name, std::int64_t row, std::int32_t count, std::int64_t capacity) {
  if (count <= capacity) return true;
  check.out_of_range(name, text("row ", row, " has ", count), text("at most S = ", capacity));
  return false;
}

bool check_pending_count(Check& check, const Name& name, std::int64_t row, std::int32_t block, std::int32_t pending,
                         std::int64_t capacity) {
  if (pending >= 0 && pending <= capacity) return true;
  check.out_of_range(name, text("block ", block, " of row ", row, " has ", pending), text("0..S = ", capacity));
  return false;
}

bool check_history(Check& check, const Name& name, std::int64_t row, LineKind kind, std::int64_t count, std::int64_t history,
                   std::int64_t columns) {
  const std::int64_t end = history_start(kind, count) + history;
  if (end <= columns) return true;
  check.out_of_range(name, text("row ", row, " has ", count, ", a history up to line position ", end - 1),
                     text("a history within the line's ", columns, " columns"));
  return false;
}

void check_shared_blocks(Check& check, const Name& part, ContentsMemory& memory) {
  if (!check.ok()) return;
  const Conflict conflict = find_conflict(memory.uses());
  if (conflict.first == nullptr) return;
  const auto [low, high] = std::minmax(conflict.first->row, conflict.second->row);
  check.out_of_range(part.dot("state_indices"), text("rows ", low, " and ", high, " share block ", conflict.first->block),
                     "a block of its own for each live row");
}

}  // namespace recoverssm
