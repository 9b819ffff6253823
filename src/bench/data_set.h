// The arguments of one call of one operation, in an arena, and how to make them.
#pragma once

#include <memory>

#include "bench/arena.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::bench {

// How a step keeps its states: records and a commit, records folded by the next step, a state a token.
enum class Form { records, lazy, snapshots };

// What a data set is made for. Which of it matters depends on the operation.
struct Shape {
  int rows = 1;
  int tokens = 1;             // a row
  int layers = 1;             // commit, materialize, align_move, step
  int groups = 1;             // of commit's layers, one after the other
  int waiting = 0;            // records folded or replayed a row
  bool boundary = false;      // commit: a boundary block beside the final one
  bool moved = false;         // commit: the final block is not the source
  bool call_a_group = false;  // commit: one call a group, not one for all
  Form form = Form::records;  // step
  LineKind line_kind = LineKind::rolled;
  Gate gate = Gate::gdn;
  std::int64_t H = 0, HV = 0, K = 0, V = 0, W = 0;
  DType activation = DType::bf16, state = DType::f32;

  std::int64_t channels() const { return 2 * H * K + HV * V; }
  std::int64_t window() const { return tokens > waiting ? tokens : waiting; }  // S
};

class DataSet {
 public:
  virtual ~DataSet() = default;
  virtual Status check() const = 0;  // validate, then query_support
  virtual std::size_t workspace(const Launch& launch) const = 0;
  virtual Status run(const Launch& launch) const = 0;
  // What the call leaves otherwise than it found it and needs again, such as pending counts. Null: the set is in the host's memory.
  virtual void rearm(Device* /*device*/) const {}
};

using Build = std::unique_ptr<DataSet> (*)(const Shape& shape, Arena& arena);

std::unique_ptr<DataSet> build_split_projections(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_conv(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_conv_window(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_short_conv(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_short_conv_window(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_rule(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_snapshots(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_verify(const Shape& shape, Arena& arena);       // lazy where records wait
std::unique_ptr<DataSet> build_conv_verify(const Shape& shape, Arena& arena);  // a window's convolution, and verify on its output
std::unique_ptr<DataSet> build_attention_plain(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_attention_windows(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_commit_plan(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_commit_plan_groups(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_commit(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_step(const Shape& shape,
                                    Arena& arena);  // all layers of a speculative step, and what follows the sampler
std::unique_ptr<DataSet> build_materialize(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_align_move(const Shape& shape, Arena& arena);
std::unique_ptr<DataSet> build_align_advance(const Shape& shape, Arena& arena);

}  // namespace recoverssm::bench
