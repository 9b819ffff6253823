// An error changes nothing: one wrong index, offset or count anywhere in a call makes it out_of_range, and every byte stays as it was.
#include <gtest/gtest.h>

#include <array>

#include "support/call.h"
#include "support/conv.h"
#include "support/plan.h"
#include "support/rule.h"

namespace {

using namespace support;
using recoverssm::ErrorKind;
using recoverssm::Status;

void out_of_range(const Status& status, const char* op, const std::string& what) {
  require(status.kind == ErrorKind::out_of_range,
          what + ": expected out_of_range, got " + name_of(status.kind) + " " + status.message);
  require(status.message.rfind(op, 0) == 0, "the message begins with the op: " + status.message);
}

// Rows of which the first two are live, so that any fault below can be put in.
RowSet two_live_rows(Pick& pick, int capacity, bool accepted) {
  RowSet rows;
  rows.capacity = capacity;
  rows.pool_blocks = 8;
  rows.counted = accepted;
  rows.offsets = {pick.between(0, 2)};
  const std::vector<int> ids = pick.distinct(3, 1, 7);
  const int n = pick.between(2, 3);
  for (int i = 0; i < n; ++i) {
    rows.add(pick.between(1, capacity > 0 ? capacity : 4), ids[static_cast<std::size_t>(i)]);
    if (accepted) rows.accepted.push_back(pick.between(0, capacity));
  }
  rows.tokens = rows.global_rows = rows.offsets.back() + 2;
  return rows;
}

// Puts one fault into rows and says what it is.
std::string break_rows(Pick& pick, RowSet& rows) {
  const auto victim = static_cast<std::size_t>(pick.between(0, rows.rows() - 1));
  switch (pick.between(0, 7 + (rows.counted ? 1 : 0))) {
    case 0:
      rows.blocks[victim] = rows.pool_blocks;
      return "a block id one past the pool";
    case 1:
      rows.blocks[victim] = 6947;
      return "a block id far past the pool";
    case 2:
      rows.blocks[victim] = rows.blocks[(victim + 1) % rows.blocks.size()];
      return "two live rows on one block";
    case 3:
      rows.offsets[victim + 1] = rows.offsets[victim] - 1;
      return "decreasing offsets";
    case 4:
      rows.offsets.back() = rows.tokens + 1;
      return "offsets past the tokens";
    case 5:
      rows.offsets[0] = -1;
      return "a negative offset";
    case 6:
    case 7: {
      rows.token_index = pick.permutation(rows.tokens);
      const int first = rows.first(static_cast<int>(victim));
      const auto at = static_cast<std::size_t>(first);
      const int what = pick.between(0, 2);
      if (what == 2) {  // the same global row for a token of another row
        const auto other = static_cast<std::size_t>(rows.first(static_cast<int>((victim + 1) % rows.blocks.size())));
        rows.token_index[at] = rows.token_index[other];
        return "a token named twice";
      }
      rows.token_index[at] = what == 0 ? rows.global_rows : -1;
      return "a token outside the global rows";
    }
    default:
      rows.accepted[victim] = rows.capacity + 1;
      return "a count above S";
  }
}

// For windows only: one more token than S.
bool break_length(Pick& pick, RowSet& rows) {
  if (rows.capacity == 0 || !pick.chance(15)) return false;
  rows.offsets.back() = rows.offsets[rows.offsets.size() - 2] + rows.capacity + 1;
  rows.tokens = rows.global_rows = rows.offsets.back() + 1;
  return true;
}

TEST(Errors, DeltaRules) {
  RECOVERSSM_CPU_ONLY("wrong contents, which a device answers row by row: traces bad_rows_gpu.*");
  property(400, [](Pick& pick) {
    const RuleShape shape = random_rule_shape(pick);
    const RuleWeights weights = random_weights(pick, shape);
    const int op = pick.between(0, 3);  // plain, verify, lazy verify, snapshots
    RowSet rows = two_live_rows(pick, op == 0 ? 0 : pick.between(1, 4), op >= 2);
    std::string fault = break_length(pick, rows) ? "a window longer than S" : "";
    const RulePool pool = random_pool(pick, shape, rows.pool_blocks, std::max(rows.capacity, 1));
    if (op == 3) {
      rows.snapshots = true;
      for (int i = 0; i < rows.rows(); ++i) {
        rows.columns.emplace_back(static_cast<std::size_t>(rows.capacity), 0);  // null columns: nothing is stored
        rows.columns.back()[static_cast<std::size_t>(std::max(rows.count(i) - 1, 0))] = rows.block(i);
      }
      if (fault.empty()) {
        const int victim = pick.between(0, rows.rows() - 1);
        const auto u = static_cast<std::size_t>(victim);
        const int other = (victim + 1) % rows.rows();
        switch (pick.between(0, 3)) {
          case 0:
            rows.columns[u][static_cast<std::size_t>(std::max(rows.count(victim) - 1, 0))] = rows.pool_blocks + pick.between(0, 3);
            fault = "a start id past the pool";
            break;
          case 1:
            rows.columns[u][0] = rows.pool_blocks;
            fault = "a column id past the pool";
            break;
          case 2:
            rows.columns[u][static_cast<std::size_t>(pick.between(0, rows.length(victim) - 1))] = rows.block(other);
            fault = "a column that is another row's start";
            if (rows.columns[u][static_cast<std::size_t>(std::max(rows.count(victim) - 1, 0))] == rows.block(other))
              fault = "two rows with one start";
            break;
          default:
            rows.accepted[u] = rows.capacity + 1;
            fault = "a count above S";
            break;
        }
      }
    } else if (fault.empty()) {
      fault = break_rows(pick, rows);
    }
    if (op == 2 && fault == "a count above S" && pick.chance(50)) {  // or: pending outside 0..S in a live row's block
      for (std::size_t i = 0; i < rows.accepted.size(); ++i) rows.accepted[i] = 0;
      pool.pending.set(pick.one_of({-1, rows.capacity + 1}), rows.block(0));
      fault = "pending outside 0..S";
    }
    pick.log(shape.text() + " " + rows.text() + " " + fault);
    const RuleTokens tokens = random_tokens(pick, shape, rows.tokens);
    const Tensor out = random_out(pick, shape, rows.global_rows);
    const RowTensors index = row_tensors(pick, rows);
    const recoverssm::RuleInputs inputs = inputs_of(shape, weights, tokens);
    std::vector<Untouched::Watch> watches = pool.watches();
    watches.push_back({"out", out});
    const Untouched untouched(watches);
    if (op == 0) {
      out_of_range(
          try_run(recoverssm::GatedDeltaRuleParams{inputs, pool.state, out, rows_of(rows, index), {}, {}}, random_how(pick)),
          "gated_delta_rule", fault);
    } else if (op == 3) {
      out_of_range(
          try_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs, pool.state, out, rows_of(rows, index)}, random_how(pick)),
          "gated_delta_rule_snapshots", fault);
    } else {
      const TensorView pending = op == 2 ? pool.pending.view : TensorView{};
      out_of_range(
          try_run(recoverssm::GatedDeltaRuleVerifyParams{inputs, pool.state, out, pool.records(), rows_of(rows, index), pending},
                  random_how(pick)),
          "gated_delta_rule_verify", fault);
    }
    require(untouched.check(), fault);
  });
}

TEST(Errors, Convolutions) {
  RECOVERSSM_CPU_ONLY("wrong contents, which a device answers row by row: traces bad_rows_gpu.*");
  property(200, [](Pick& pick) {
    const bool window = pick.chance(50);
    ConvShape shape = random_conv_shape(pick, window ? pick.between(1, 4) : 0);
    const ConvWeights weights = random_conv_weights(pick, shape);
    RowSet rows = two_live_rows(pick, shape.S, window && pick.chance(60));
    const std::string fault = break_length(pick, rows) ? "a window longer than S" : break_rows(pick, rows);
    const ConvData data = random_conv_data(pick, shape, rows);
    pick.log(shape.text() + " " + rows.text() + " " + fault);
    const Untouched untouched({{"x", data.x}, {"out", data.out}, {"line", data.line}});
    out_of_range(try_conv(pick, shape, weights, rows, data, random_how(pick)), window ? "causal_conv1d_window" : "causal_conv1d",
                 fault);
    require(untouched.check(), fault);
  });
}

TEST(Errors, APlainHistoryPastTheLine) {
  RECOVERSSM_CPU_ONLY("wrong contents, which a device answers row by row: traces bad_rows_gpu.*");
  property(60, [](Pick& pick) {
    const ConvShape shape = random_conv_shape(pick, 0);
    const ConvWeights weights = random_conv_weights(pick, shape);
    RowSet rows = two_live_rows(pick, 0, false);
    rows.counted = true;
    rows.accepted.assign(rows.blocks.size(), 1);
    const int farthest = shape.columns - (shape.W - 1) + (shape.kind == recoverssm::LineKind::rolled ? 1 : 0);
    if (shape.kind == recoverssm::LineKind::anchored) rows.accepted.assign(rows.blocks.size(), 0);
    rows.accepted.back() = farthest + pick.between(1, 3);
    const ConvData data = random_conv_data(pick, shape, rows);
    const Untouched untouched({{"x", data.x}, {"out", data.out}, {"line", data.line}});
    out_of_range(try_conv(pick, shape, weights, rows, data, random_how(pick)), "causal_conv1d", "a history past the line");
    require(untouched.check());
  });
}

TEST(Errors, Commit) {
  RECOVERSSM_CPU_ONLY("wrong contents, which a device answers row by row: traces bad_rows_gpu.*");
  property(200, [](Pick& pick) {
    RuleShape shape = random_rule_shape(pick);
    shape.K = std::min(shape.K, 20);
    const RuleWeights weights = random_weights(pick, shape);
    const int S = pick.between(1, 4);
    const RulePool pool = random_pool(pick, shape, 10, S);
    const bool lazy = pick.chance(40);
    const std::vector<int> ids = pick.distinct(6, 1, 9);
    PlanArrays plan;
    for (std::size_t i = 0; i < 2; ++i) plan.add(ids[3 * i], pick.between(1, S), ids[3 * i + pick.one_of({0U, 1U})], 0, 0);
    pool.pending.fill(S);
    std::string fault;
    ErrorKind kind = ErrorKind::out_of_range;
    const auto victim = static_cast<std::size_t>(pick.between(0, 1));
    switch (pick.between(0, lazy ? 8 : 6)) {
      case 0:
        plan.source[victim] = 10;
        fault = "source past the pool";
        break;
      case 1:
        plan.final_block[victim] = 4096;
        fault = "final past the pool";
        break;
      case 2:
        plan.commit_len[victim] = S + 1;
        fault = "commit_len above S";
        break;
      case 3:
        plan.boundary_block[victim] = ids[3 * victim + 2];
        plan.boundary_len[victim] = pick.one_of({0, -1, plan.commit_len[victim] + 1});
        fault = "boundary_len outside 1..c";
        break;
      case 4:
        plan.boundary_block[victim] = 10;
        plan.boundary_len[victim] = 1;
        fault = "boundary past the pool";
        break;
      case 5:
        plan.final_block[victim] = plan.source[1 - victim];
        fault = "final is another row's source";
        break;
      case 6:
        plan.final_block[victim] = plan.final_block[1 - victim];
        fault = "two rows write one block";
        break;
      case 7:
        pool.pending.set(pick.one_of({-1, S + 1}), plan.source[victim]);
        fault = "pending outside 0..S";
        break;
      default:
        plan.final_block[victim] = ids[3 * victim + 1];
        pool.pending.set(0, plan.source[victim]);
        kind = ErrorKind::bad_state;
        fault = "nothing waits and final is another block";
        break;
    }
    pick.log(fault);
    const PlanTensors tensors = plan_tensors(pick, plan);
    const std::array groups = {tensors.group()};
    const std::array layers = {layer_of(shape, weights, pool, lazy)};
    const Untouched untouched(pool.watches());
    const Status status = try_run(recoverssm::CommitParams{groups, layers, S, 0}, random_how(pick));
    require(status.kind == kind, fault + ": expected " + name_of(kind) + ", got " + name_of(status.kind) + " " + status.message);
    require(untouched.check(), fault);
  });
}

TEST(Errors, MaterializeAndMove) {
  RECOVERSSM_CPU_ONLY("wrong contents, which a device answers row by row: traces bad_rows_gpu.*");
  property(120, [](Pick& pick) {
    RuleShape shape = random_rule_shape(pick);
    shape.K = std::min(shape.K, 20);
    const RuleWeights weights = random_weights(pick, shape);
    const RulePool pool = random_pool(pick, shape, 6, 3);
    const std::array layers = {layer_of(shape, weights, pool, true)};
    std::vector<int> first = {1, 2}, second;
    std::string fault;
    ErrorKind kind = ErrorKind::out_of_range;
    Status status;
    std::vector<Untouched::Watch> watches = pool.watches();
    if (pick.chance(50)) {
      second = {1, 2};  // counts
      pool.pending.fill(2);
      switch (pick.between(0, 3)) {
        case 0:
          first[1] = 1;
          fault = "a block listed twice";
          break;
        case 1:
          first[1] = 6;
          fault = "a block past the pool";
          break;
        case 2:
          second[1] = 4;
          fault = "a count above S";
          break;
        default:
          pool.pending.set(pick.one_of({-1, 4}), 2);
          fault = "pending outside 0..S";
          break;
      }
      const Untouched untouched(watches);
      const Tensor blocks = strided_i32(pick, first), counts = strided_i32(pick, second);
      status = try_run(recoverssm::MaterializeParams{blocks, counts, layers, 0}, random_how(pick));
      require(untouched.check(), fault);
    } else {
      second = {3, 4};  // to
      switch (pick.between(0, 4)) {
        case 0:
          second[1] = 3;
          fault = "two rows to one block";
          break;
        case 1:
          second[1] = 1;
          fault = "a destination that is another row's source";
          break;
        case 2:
          second[1] = 6;
          fault = "a block past the pool";
          break;
        case 3:
          first = {1, 3};  // row 1 does nothing, and still owns its block
          second = {3, 3};
          fault = "a destination owned by an idle row";
          break;
        default:
          pool.pending.set(1, 1);
          kind = ErrorKind::bad_state;
          fault = "records wait at the source";
          break;
      }
      const Untouched untouched(watches);
      const Tensor from = strided_i32(pick, first), to = strided_i32(pick, second);
      status = try_run(recoverssm::AlignMoveParams{from, to, layers, 0}, random_how(pick));
      require(untouched.check(), fault);
    }
    require(status.kind == kind, fault + ": expected " + name_of(kind) + ", got " + name_of(status.kind) + " " + status.message);
  });
}

}  // namespace
