#include "support/rows.h"

#include <sstream>

namespace support {

namespace {

constexpr int kStale = 9999;  // an id or count that only a row without tokens may hold

std::string list(const std::vector<int>& numbers) {
  std::ostringstream text;
  text << "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) text << (i == 0 ? "" : ",") << numbers[i];
  text << "]";
  return text.str();
}

}  // namespace

std::string RowSet::text() const {
  std::ostringstream text;
  text << "offsets " << list(offsets) << " blocks " << list(blocks) << " null " << null_id << " S " << capacity;
  if (!initial.empty()) text << " initial " << list(initial);
  if (counted) text << " accepted " << list(accepted);
  if (!token_index.empty()) text << " token_index " << list(token_index);
  return text.str();
}

RowSet random_rows(Pick& pick, const RowOptions& options) {
  RowSet set;
  set.capacity = options.capacity;
  set.counted = options.accepted;
  const int n = pick.between(options.min_rows, options.max_rows);
  set.null_id = pick.one_of({0, -1, 2});
  set.pool_blocks = n + 3 + pick.between(0, 3);
  const int lowest = set.null_id + 1;
  const std::vector<int> ids = pick.distinct(n, lowest, set.pool_blocks - 1);
  const bool initial = options.initial && pick.chance(60);
  set.offsets = {pick.chance(30) ? pick.between(1, 3) : 0};
  const int longest = options.capacity > 0 ? options.capacity : options.max_length;
  for (int i = 0; i < n; ++i) {
    int length = pick.between(1, longest);
    int block = ids[static_cast<std::size_t>(i)];
    int count = pick.between(0, options.capacity > 0 ? options.capacity : longest);
    if (options.empties && pick.chance(15)) {
      length = 0;
      if (pick.chance(50)) {
        block = kStale;
        count = kStale;
      }
    } else if (options.nulls && pick.chance(20)) {
      block = set.null_id - pick.between(0, 2);
      count = pick.chance(50) ? kStale : -kStale;
    } else if (options.capacity > 0 && pick.chance(10)) {
      count = -1;  // reads as nothing kept
    }
    set.add(length, block);
    if (initial) set.initial.push_back(pick.chance(50) ? 1 : 0);
    if (options.accepted) set.accepted.push_back(count);
  }
  set.tokens = set.offsets.back() + (pick.chance(30) ? pick.between(1, 3) : 0);
  set.global_rows = set.tokens + (pick.chance(30) ? pick.between(1, 3) : 0);
  if (options.permuted && pick.chance(50)) {
    set.token_index = pick.permutation(set.global_rows);
    set.token_index.resize(static_cast<std::size_t>(set.tokens));
  }
  return set;
}

RowSet only_row(const RowSet& rows, int i) {
  const auto u = static_cast<std::size_t>(i);
  RowSet one = rows;
  one.offsets = {rows.offsets[u], rows.offsets[u + 1]};
  one.blocks = {rows.blocks[u]};
  if (!rows.initial.empty()) one.initial = {rows.initial[u]};
  if (rows.counted) one.accepted = {rows.accepted[u]};
  if (rows.snapshots) one.columns = {rows.columns[u]};
  return one;
}

RowTensors row_tensors(Pick& pick, const RowSet& set) {
  RowTensors tensors;
  tensors.query_start_loc = strided_i32(pick, set.offsets);
  tensors.state_indices = set.snapshots ? strided_table(pick, set.columns, set.capacity) : strided_i32(pick, set.blocks);
  if (!set.initial.empty()) tensors.has_initial_state = strided_bool(pick, set.initial);
  if (set.counted) tensors.num_accepted = strided_i32(pick, set.accepted);
  if (!set.token_index.empty()) tensors.token_index = strided_i32(pick, set.token_index);
  return tensors;
}

recoverssm::Rows rows_of(const RowSet& set, const RowTensors& tensors) {
  recoverssm::Rows rows;
  rows.query_start_loc = tensors.query_start_loc;
  rows.state_indices = tensors.state_indices;
  rows.has_initial_state = tensors.has_initial_state;
  rows.num_accepted = tensors.num_accepted;
  rows.token_index = tensors.token_index;
  rows.window_capacity = set.capacity;
  rows.null_block_id = set.null_id;
  return rows;
}

}  // namespace support
