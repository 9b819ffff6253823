// Delta-rule calls and their commits in one line each, on random inputs. Every call takes a thread count and a SIMD target at random.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "support/call.h"
#include "support/plan.h"
#include "support/rule.h"

namespace reports {

using namespace support;
using recoverssm::ErrorKind;
using recoverssm::LineKind;

// Rows of these lengths on these blocks; capacity 0: plain rows.
RowSet rows_on(const std::vector<int>& blocks, const std::vector<int>& lengths, int capacity);
inline RowSet one_row(int length, int capacity) { return rows_on({1}, {length}, capacity); }

// One layer's rule, with everything its calls need.
struct Model {
  Pick pick;
  RuleShape shape;
  RuleWeights weights;

  Model(std::uint64_t seed, const RuleShape& s) : pick(seed), shape(s), weights(random_weights(pick, s)) {}

  RulePool pool(int blocks, int S) { return random_pool(pick, shape, blocks, S); }
  RulePool copy(const RulePool& p) { return another_pool(pick, p); }
  RuleTokens tokens(int count) { return random_tokens(pick, shape, count); }
  RuleTokens some(const RuleTokens& t, int begin, int end);  // tokens begin..end-1
  Tensor out(int rows) { return random_out(pick, shape, rows); }

  recoverssm::Status try_plain(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out,
                               bool with_pending = false);
  recoverssm::Status try_verify(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out,
                                bool with_pending = false);
  recoverssm::Status try_snapshots(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out);
  recoverssm::Status try_commit(const PlanArrays& plan, const RulePool& p, bool with_pending = false, int null_id = 0);
  recoverssm::Status try_materialize(const std::vector<int>& blocks, const std::vector<int>& kept, const RulePool& p);

  // The same, where a refusal fails the test.
  void plain(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out);
  void verify(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out);
  void snapshots(const RowSet& rows, const RuleTokens& tokens, const RulePool& p, const Tensor& out);
  void commit(const PlanArrays& plan, const RulePool& p);
  void commit(int block, int kept, const RulePool& p);
};

// A snapshots row on `columns`, started from `start` tokens of the window before (1: column 0).
RowSet snapshot_rows(const std::vector<std::vector<int>>& columns, const std::vector<int>& lengths, const std::vector<int>& counts);

// Outputs of every token and the final states of a plain call against the float64 reference; nothing else may change.
void matches_reference(Model& m, const RowSet& rows, const std::string& what);

constexpr RuleShape kSmall = {.H = 1, .HV = 2, .K = 16, .V = 8};

}  // namespace reports
