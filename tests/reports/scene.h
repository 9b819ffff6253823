// Every operation that runs rows, behind one face: a fault of rows (ids, padding, lengths, strides of index arrays) is the same fault
// in all of them, so its test is one body over this table.
#pragma once

#include <functional>

#include "reports/calls.h"

namespace reports {

enum class Op {
  conv,
  rolled_window,
  anchored_window,
  rule,
  kda_rule,
  snapshots,
  kda_snapshots,
  verify,
  kda_verify,
  lazy_verify,
  short_conv,
  short_window,
};
inline constexpr Op kOps[] = {Op::conv,       Op::rolled_window, Op::anchored_window, Op::rule,
                              Op::kda_rule,   Op::snapshots,     Op::kda_snapshots,   Op::verify,
                              Op::kda_verify, Op::lazy_verify,   Op::short_conv,      Op::short_window};

const char* name_of(Op op);
bool is_window(Op op);
bool is_snapshots(Op op);
bool is_counted(Op op);  // takes num_accepted
bool is_rule(Op op);     // a delta rule: tokens are local, only out is global

constexpr int kCapacity = 4;  // S of every scene

// Random rows for the op. Null rows, empty rows and permuted tokens as the options say; what an op requires (capacity, counts,
// columns) is filled in.
RowSet random_scene_rows(Pick& pick, Op op, RowOptions options);
// Rows of these lengths on these blocks, with everything the op requires. Snapshots: further columns lie behind `blocks`.
RowSet scene_rows(Op op, const std::vector<int>& blocks, const std::vector<int>& lengths, int null_id = 0);

// Inputs, outputs (NaN) and pools of one call.
struct Scene {
  Op op = Op::conv;
  RuleShape shape;
  RuleWeights weights;
  RuleTokens tokens;
  RulePool pool;
  Tensor x, weight, line;
  Tensor out;

  // What belongs to blocks, leading dimension first: line; state and records.
  std::vector<Tensor> pools() const;
  std::vector<Untouched::Watch> watches() const;  // pools and out
};

Scene random_scene(Pick& pick, Op op, const RowSet& rows);
Scene another_scene(Pick& pick, const Scene& scene);  // the same bits in another layout

using EditRows = std::function<void(recoverssm::Rows&)>;
recoverssm::Status try_scene(Pick& pick, const Scene& scene, const RowSet& rows, const EditRows& edit = {});
void run_scene(Pick& pick, const Scene& scene, const RowSet& rows, const EditRows& edit = {});

// Blocks that live row i reads or writes.
std::vector<int> blocks_of(const RowSet& rows, int i);
// Fills block `id` of every pool with a value, if there is such a block.
void poison_block(const Scene& scene, int id, double value);
// Outputs and blocks of live row i are the same bits in both.
void same_row(const Scene& a, const RowSet& rows_a, int i, const Scene& b, const RowSet& rows_b, int j, const std::string& what);

}  // namespace reports
