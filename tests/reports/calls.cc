#include "reports/calls.h"

#include <numeric>

namespace reports {

namespace {

void succeed(const recoverssm::Status& status) { require(status.ok(), status.message); }

}  // namespace

RowSet rows_on(const std::vector<int>& blocks, const std::vector<int>& lengths, int capacity) {
  RowSet rows;
  rows.capacity = capacity;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    rows.add(lengths[i], blocks[i]);
    rows.pool_blocks = std::max(rows.pool_blocks, blocks[i] + 1);
  }
  rows.tokens = rows.global_rows = rows.offsets.back();
  return rows;
}

RowSet snapshot_rows(const std::vector<std::vector<int>>& columns, const std::vector<int>& lengths,
                     const std::vector<int>& counts) {
  std::vector<int> start;
  for (std::size_t i = 0; i < columns.size(); ++i)
    start.push_back(columns[i][static_cast<std::size_t>(std::max(counts[i] - 1, 0))]);
  RowSet rows = rows_on(start, lengths, static_cast<int>(columns[0].size()));
  rows.snapshots = rows.counted = true;
  rows.columns = columns;
  rows.accepted = counts;
  return rows;
}

RuleTokens Model::some(const RuleTokens& t, int begin, int end) {
  std::vector<int> which(static_cast<std::size_t>(end - begin));
  std::iota(which.begin(), which.end(), begin);
  return gather(pick, shape, t, which, 0, end - begin);
}

recoverssm::Status Model::try_plain(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out,
                                    bool with_pending) {
  const RowTensors index = row_tensors(pick, rows);
  recoverssm::GatedDeltaRuleParams params{inputs_of(shape, weights, tokens), p.state, out, rows_of(rows, index), {}, {}};
  if (with_pending) {
    params.pending = p.pending;
    params.records = p.records();
  }
  return try_run(params, random_how(pick));
}

recoverssm::Status Model::try_verify(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out,
                                     bool with_pending) {
  const RowTensors index = row_tensors(pick, rows);
  recoverssm::GatedDeltaRuleVerifyParams params{
      inputs_of(shape, weights, tokens), p.state, out, p.records(), rows_of(rows, index), {}};
  if (with_pending) params.pending = p.pending;
  return try_run(params, random_how(pick));
}

recoverssm::Status Model::try_snapshots(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out) {
  const RowTensors index = row_tensors(pick, rows);
  return try_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(shape, weights, tokens), p.state, out, rows_of(rows, index)},
                 random_how(pick));
}

recoverssm::Status Model::try_commit(const PlanArrays& plan, const RulePool& p, bool with_pending, int null_id) {
  const PlanTensors tensors = plan_tensors(pick, plan);
  const std::array groups = {tensors.group()};
  const std::array layers = {layer_of(shape, weights, p, with_pending)};
  return try_run(recoverssm::CommitParams{groups, layers, p.capacity, null_id}, random_how(pick));
}

recoverssm::Status Model::try_materialize(const std::vector<int>& blocks, const std::vector<int>& kept, const RulePool& p) {
  const Tensor ids = strided_i32(pick, blocks), counts = strided_i32(pick, kept);
  const std::array layers = {layer_of(shape, weights, p, true)};
  return try_run(recoverssm::MaterializeParams{ids, counts, layers, 0}, random_how(pick));
}

void Model::plain(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out) {
  succeed(try_plain(rows, tokens, p, out));
}
void Model::verify(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out) {
  succeed(try_verify(rows, tokens, p, out));
}
void Model::snapshots(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out) {
  succeed(try_snapshots(rows, tokens, p, out));
}
void Model::commit(const PlanArrays& plan, const RulePool& p) { succeed(try_commit(plan, p)); }
void Model::commit(int block, int kept, const RulePool& p) {
  PlanArrays plan;
  plan.add(block, kept);
  commit(plan, p);
}

void matches_reference(Model& m, const RowSet& rows, const std::string& what) {
  const RuleShape& shape = m.shape;
  const RuleTokens tokens = m.tokens(rows.tokens);
  const RulePool pool = m.pool(rows.pool_blocks, 0), before = m.copy(pool);
  const Tensor out = m.out(rows.global_rows);
  Untouched untouched({{"out", out}, {"state", pool.state}, {"a", tokens.a}, {"b", tokens.b}, {"q", tokens.q}});
  untouched.except(slice(out, 0, rows.offsets.front(), rows.offsets.back()));
  for (int i = 0; i < rows.rows(); ++i) untouched.except(slice(pool.state, 0, rows.block(i)));
  m.plain(rows, tokens, pool, out);
  require(untouched.check(), what);
  for (int i = 0; i < rows.rows(); ++i) {
    for (int j = 0; j < shape.HV; ++j) {
      const std::string where = what + " row " + std::to_string(i) + " head " + std::to_string(j);
      reference::Matrix state = matrix_of(before.state, rows.block(i), j);
      for (int t = rows.first(i); t < rows.first(i) + rows.length(i); ++t) {
        const reference::Step step =
            reference::advance_rank_one(head_of(shape, m.weights, j), token_of(shape, tokens, t, j), state);
        for (int v = 0; v < shape.V; ++v) {
          require(near(out.get(t, j, v), step.out[static_cast<std::size_t>(v)], shape.out, kRuleTolerance), where);
        }
      }
      for (int v = 0; v < shape.V; ++v) {
        for (int k = 0; k < shape.K; ++k) {
          require(near(pool.state.get(rows.block(i), j, v, k), state.at(v, k), shape.state, kRuleTolerance), where);
        }
      }
    }
  }
}

}  // namespace reports
