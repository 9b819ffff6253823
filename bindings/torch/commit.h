// The arguments of the operations around a step: plan, commit, materialize, align (see forward.h).
//
// A schema has no lists of structs, so a list of layers is columns. The columns of numbers and words have one entry a layer. A layer
// need not have every tensor, and a list of written tensors cannot hold a gap: layer_parts says, as the sum of LayerPart, which lists
// (those of tensors, and lower_bound) hold the next entry for this layer.
#pragma once

#include <string>
#include <vector>

#include "api/words.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::torch_ops {

// python/recoverssm/ops/_types.py has the same numbers.
enum LayerPart : std::int32_t {
  kLine = 1,
  kState = 2,
  kPending = 4,
  kRecords = 8,
  kCorrections = 16,
  kKeyGate = 32,
  kALog = 64,
  kDtBias = 128,
  kLowerBound = 256,
};

struct LayerColumns {
  std::vector<TensorView> line, state, pending, records, corrections, key_gate, A_log, dt_bias;
  std::vector<std::int32_t> parts, group, conv_taps;
  std::vector<LineKind> line_kind;
  std::vector<Gate> gate;
  std::vector<float> lower_bound, softplus_beta, softplus_threshold;
  std::vector<bool> l2norm;

  template <class A>
  void describe(A& a) {
    a.write_list("line", line);
    a.write_list("state", state);
    a.write_list("pending", pending);
    a.read_list("records", records);
    a.read_list("corrections", corrections);
    a.read_list("key_gate", key_gate);
    a.read_list("A_log", A_log);
    a.read_list("dt_bias", dt_bias);
    a.integers("layer_parts", parts);
    a.integers("group", group);
    a.words("line_kind", kLineKinds, line_kind);
    a.integers("conv_taps", conv_taps);
    a.words("gate", kGates, gate);
    a.reals("lower_bound", lower_bound);
    a.flags("l2norm", l2norm);
    a.reals("softplus_beta", softplus_beta);
    a.reals("softplus_threshold", softplus_threshold);
  }

  // Refuses columns that do not fit together.
  template <class A>
  std::vector<Layer> layers(A& a) const {
    const std::size_t count = parts.size();
    for (const std::size_t size : {group.size(), line_kind.size(), conv_taps.size(), gate.size(), l2norm.size(),
                                   softplus_beta.size(), softplus_threshold.size()}) {
      if (size != count) {
        a.refuse("layer_parts", std::to_string(count) + " layers", "as many as in the other columns, " + std::to_string(size));
        return {};
      }
    }
    Cursor cursor{*this};
    std::vector<Layer> layers(count);
    for (std::size_t i = 0; i < count; ++i) {
      Layer& layer = layers[i];
      layer.group = group[i];
      layer.line_kind = line_kind[i];
      layer.conv_taps = conv_taps[i];
      layer.gate = gate[i];
      layer.l2norm = l2norm[i];
      layer.softplus_beta = softplus_beta[i];
      layer.softplus_threshold = softplus_threshold[i];
      cursor.take(parts[i], layer);
    }
    if (!cursor.finished()) a.refuse("layer_parts", "lists of tensors of other lengths", "an entry for each part named");
    return layers;
  }

 private:
  struct Cursor {
    const LayerColumns& columns;
    bool short_list = false;
    std::size_t next[9] = {};

    void take(std::int32_t parts, Layer& layer) {
      one(parts, kLine, 0, columns.line, layer.line);
      one(parts, kState, 1, columns.state, layer.state);
      one(parts, kPending, 2, columns.pending, layer.pending);
      one(parts, kRecords, 3, columns.records, layer.records.packed);
      one(parts, kCorrections, 4, columns.corrections, layer.records.corrections);
      one(parts, kKeyGate, 5, columns.key_gate, layer.records.key_gate);
      one(parts, kALog, 6, columns.A_log, layer.A_log);
      one(parts, kDtBias, 7, columns.dt_bias, layer.dt_bias);
      one(parts, kLowerBound, 8, columns.lower_bound, layer.lower_bound);
    }
    template <class T, class Field>
    void one(std::int32_t parts, LayerPart part, int list, const std::vector<T>& values, Field& field) {
      if ((parts & part) == 0) return;
      std::size_t& i = next[list];
      if (i < values.size()) {
        field = values[i++];
      } else {
        short_list = true;
      }
    }
    bool finished() const {
      const std::size_t sizes[] = {columns.line.size(),    columns.state.size(),       columns.pending.size(),
                                   columns.records.size(), columns.corrections.size(), columns.key_gate.size(),
                                   columns.A_log.size(),   columns.dt_bias.size(),     columns.lower_bound.size()};
      for (int list = 0; list < 9; ++list) {
        if (next[list] != sizes[list]) return false;
      }
      return !short_list;
    }
  };
};

// Lists that hold one tensor a group: all must have the same length.
template <class A>
bool same_length(A& a, std::initializer_list<std::size_t> sizes) {
  for (const std::size_t size : sizes) {
    if (size == *sizes.begin()) continue;
    a.refuse("groups", std::to_string(size) + " tensors", "one a group, " + std::to_string(*sizes.begin()));
    return false;
  }
  return true;
}

struct CommitPlan {
  static constexpr const char* kName = "commit_plan";
  CommitPlanParams params;

  template <class A>
  void describe(A& a) {
    CommitPlanParams& p = params;
    a.read("num_accepted", p.num_accepted);
    a.read("query_start_loc", p.query_start_loc);
    a.read("state_indices", p.state_indices);
    a.write("commit_len", p.out.commit_len);
    a.write("final_indices", p.out.final_indices);
    a.write("boundary_indices", p.out.boundary_indices);
    a.write("boundary_len", p.out.boundary_len);
    a.integer("window_capacity", p.window_capacity);
    a.maybe("request_index", p.request_index);
    a.maybe("block_table", p.block_table);
    a.maybe("num_computed", p.num_computed);
    a.optional_integer("block_size", p.block_size);
    a.integer("null_block_id", p.null_block_id, 0);
  }
};

struct CommitPlanGroups {
  static constexpr const char* kName = "commit_plan_groups";
  CommitPlanGroupsParams params;
  std::vector<TensorView> state_indices, block_table, commit_len, final_indices, boundary_indices, boundary_len;
  std::vector<bool> has_block_table;
  std::vector<PlanGroup> groups;

  template <class A>
  void describe(A& a) {
    CommitPlanGroupsParams& p = params;
    a.read("num_accepted", p.num_accepted);
    a.read("query_start_loc", p.query_start_loc);
    a.read_list("state_indices", state_indices);
    a.write_list("commit_len", commit_len);
    a.write_list("final_indices", final_indices);
    a.write_list("boundary_indices", boundary_indices);
    a.write_list("boundary_len", boundary_len);
    a.read_list("block_table", block_table);
    a.flags("has_block_table", has_block_table);
    a.integer("window_capacity", p.window_capacity);
    a.maybe("request_index", p.request_index);
    a.maybe("num_computed", p.num_computed);
    a.optional_integer("block_size", p.block_size);
    a.integer("null_block_id", p.null_block_id, 0);
  }

  template <class A>
  void assemble(A& a) {
    const std::size_t count = state_indices.size();
    if (!same_length(a, {count, commit_len.size(), final_indices.size(), boundary_indices.size(), boundary_len.size(),
                         has_block_table.size()})) {
      return;
    }
    std::size_t tables = 0;
    for (std::size_t i = 0; i < count; ++i) {
      PlanGroup group{.state_indices = state_indices[i],
                      .out = {commit_len[i], final_indices[i], boundary_indices[i], boundary_len[i]}};
      if (has_block_table[i] && tables < block_table.size()) group.block_table = block_table[tables];
      tables += has_block_table[i] ? 1 : 0;
      groups.push_back(group);
    }
    if (tables != block_table.size()) {
      a.refuse("has_block_table", std::to_string(tables) + " true",
               "one for each of " + std::to_string(block_table.size()) + " tables");
    }
    params.groups = groups;
  }
};

struct Commit {
  static constexpr const char* kName = "commit";
  CommitParams params;
  std::vector<TensorView> state_indices, commit_len, final_indices, boundary_indices, boundary_len;
  LayerColumns columns;
  std::vector<CommitGroup> groups;
  std::vector<Layer> layers;

  template <class A>
  void describe(A& a) {
    a.read_list("state_indices", state_indices);
    a.read_list("commit_len", commit_len);
    a.read_list("final_indices", final_indices);
    a.read_list("boundary_indices", boundary_indices);
    a.read_list("boundary_len", boundary_len);
    columns.describe(a);
    a.integer("window_capacity", params.window_capacity);
    a.integer("null_block_id", params.null_block_id, 0);
  }

  template <class A>
  void assemble(A& a) {
    const std::size_t count = state_indices.size();
    if (same_length(a, {count, commit_len.size(), final_indices.size(), boundary_indices.size(), boundary_len.size()})) {
      for (std::size_t i = 0; i < count; ++i) {
        groups.push_back({state_indices[i], commit_len[i], final_indices[i], boundary_indices[i], boundary_len[i]});
      }
    }
    layers = columns.layers(a);
    params.groups = groups;
    params.layers = layers;
  }
};

struct Materialize {
  static constexpr const char* kName = "materialize";
  MaterializeParams params;
  LayerColumns columns;
  std::vector<Layer> layers;

  template <class A>
  void describe(A& a) {
    a.read("blocks", params.blocks);
    a.read("num_accepted", params.num_accepted);
    columns.describe(a);
    a.integer("null_block_id", params.null_block_id, 0);
  }

  template <class A>
  void assemble(A& a) {
    layers = columns.layers(a);
    params.layers = layers;
  }
};

struct AlignMove {
  static constexpr const char* kName = "align_move";
  AlignMoveParams params;
  LayerColumns columns;
  std::vector<Layer> layers;

  template <class A>
  void describe(A& a) {
    a.read("from_", params.from);  // from is a keyword of Python, where compiled graphs are written
    a.read("to", params.to);
    columns.describe(a);
    a.integer("null_block_id", params.null_block_id, 0);
  }

  template <class A>
  void assemble(A& a) {
    layers = columns.layers(a);
    params.layers = layers;
  }
};

struct AlignAdvance {
  static constexpr const char* kName = "align_advance";
  AlignAdvanceParams params;

  template <class A>
  void describe(A& a) {
    AlignAdvanceParams& p = params;
    a.read("commit_len", p.commit_len);
    a.read("state_indices", p.state_indices);
    a.read("num_computed", p.num_computed);
    a.write("running_column", p.running_column);
    a.write("num_accepted", p.num_accepted);
    a.integer("block_size", p.block_size);
    a.maybe("request_index", p.request_index);
    a.integer("null_block_id", p.null_block_id, 0);
  }
};

}  // namespace recoverssm::torch_ops
