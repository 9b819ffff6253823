// A request's blocks in one cache group. In align mode column k of its block table holds, if anything, the state after n tokens with
// (n-1)/B = k; only the columns in use have a block. In none mode there is one column, 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "contract/plan_rules.h"
#include "recoverssm/session_config.hpp"

namespace recoverssm {

struct Column {
  std::int64_t column = 0;
  std::int32_t block = 0;
  bool boundary = false;  // holds the state after (column+1)*B tokens
};

struct Columns {
  std::vector<Column> in_use;  // ascending
  std::int64_t running = -1;   // column of the state; -1: none

  const Column* find(std::int64_t column) const {
    const auto at = std::ranges::find(in_use, column, &Column::column);
    return at == in_use.end() ? nullptr : &*at;
  }
  Column* find(std::int64_t column) { return const_cast<Column*>(std::as_const(*this).find(column)); }
  std::int32_t running_block(std::int32_t null_block_id) const {
    const Column* column = find(running);
    return column == nullptr ? null_block_id : column->block;
  }
  void add(Column column) { in_use.insert(std::ranges::upper_bound(in_use, column.column, {}, &Column::column), column); }
};

// Column of the state after `tokens` tokens.
inline std::int64_t column_after(const std::optional<std::int32_t>& block_size, std::int64_t tokens) {
  return block_size ? state_column(tokens, *block_size) : 0;
}

// Takes out of a folded request's columns what it no longer needs, all but the running one and the latest kept boundaries, and calls
// drop(block) for each. Allocates nothing: it comes after what can't be undone.
template <class Drop>
void prune(const SessionConfig& config, Columns& columns, Drop drop) {
  std::int64_t kept = 0;
  for (auto at = columns.in_use.rbegin(); at != columns.in_use.rend(); ++at) {
    if (at->column == columns.running) continue;
    if (at->boundary && kept < config.kept_boundaries) {
      ++kept;
      continue;
    }
    drop(at->block);
    at->block = config.null_block_id;
  }
  std::erase_if(columns.in_use, [&](const Column& column) { return column.block == config.null_block_id; });
}

}  // namespace recoverssm
