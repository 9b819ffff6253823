#include "trace/traffic.h"

#include <algorithm>
#include <variant>

#include "contract/rules.h"
#include "cpu/view.h"

namespace recoverssm::trace {

namespace {

// Bytes of states that gated_delta_rule_snapshots moves for a window of `tokens`: it reads the start state once and writes the state
// after every token. (Its conv line moves what this library's conv line moves; its commit moves nothing, since the next window just
// starts from another column.)
std::int64_t snapshot_bytes(std::int64_t tokens, std::int64_t state_bytes) { return (1 + tokens) * state_bytes; }

std::int64_t states_and_records(const Counters& c) { return c.state_read + c.state_written + c.record_read + c.record_written; }

}  // namespace

Counters& operator+=(Counters& sum, const Counters& more) {
  sum.rows += more.rows;
  sum.tokens += more.tokens;
  sum.state_read += more.state_read;
  sum.state_written += more.state_written;
  sum.record_read += more.record_read;
  sum.record_written += more.record_written;
  sum.line_read += more.line_read;
  sum.line_written += more.line_written;
  sum.activation_read += more.activation_read;
  sum.activation_written += more.activation_written;
  return sum;
}

void TrafficMeter::add(const BoundCall& call, const Counters& counted) {
  traffic_.counters += counted;
  if (const auto* conv = std::get_if<CausalConv1dWindowParams>(&call.params)) conv_ = *conv;
  if (const auto* verify = std::get_if<GatedDeltaRuleVerifyParams>(&call.params)) add_verify(*verify, counted);
  if (const auto* commit = std::get_if<CommitParams>(&call.params)) add_commit(*commit, counted);
  if (const auto* fold = std::get_if<MaterializeParams>(&call.params)) add_materialize(*fold, counted);
}

void TrafficMeter::add_verify(const GatedDeltaRuleVerifyParams& params, const Counters& counted) {
  if (first_layer_ == nullptr) first_layer_ = params.state.data;
  const bool first = is_first(params.state);
  std::int64_t windows = 0;
  for (std::int64_t i = 0; i + 1 < params.rows.query_start_loc.shape[0]; ++i) {
    const std::int64_t length = cpu::i32_at(params.rows.query_start_loc, i + 1) - cpu::i32_at(params.rows.query_start_loc, i);
    if (length == 0) continue;
    const std::int32_t block = cpu::i32_at(params.rows.state_indices, i);
    if (is_null(block, params.rows.null_block_id)) continue;
    ++windows;
    traffic_.snapshots += snapshot_bytes(length, state_bytes(params.state));
    if (!first) continue;
    traffic_.tokens += length;
    if (params.pending.present()) {
      traffic_.accepted += lazy_fold_count(cpu::i32_at(params.rows.num_accepted, i), cpu::i32_at(params.pending, block));
    }
  }
  if (windows == 0) return;
  if (layers_.insert(params.state.data).second) measure_request(params);
  traffic_.moved += states_and_records(counted);
  if (first) {
    ++traffic_.steps;
    traffic_.windows += windows;
  }
}

// Adds one layer to what a request owns.
void TrafficMeter::measure_request(const GatedDeltaRuleVerifyParams& params) {
  ++traffic_.layers;
  // Shapes no request has (a broadcast of billions of channels, say) have no size.
  for (const std::int64_t size : {params.inputs.q.shape[1], params.state.shape[1], params.state.shape[2], params.state.shape[3],
                                  conv_ ? conv_->x.shape[1] : 0}) {
    if (size > INT32_MAX) return;
  }
  Geometry geometry;
  geometry.H = static_cast<std::int32_t>(params.inputs.q.shape[1]);
  geometry.HV = static_cast<std::int32_t>(params.state.shape[1]);
  geometry.V = static_cast<std::int32_t>(params.state.shape[2]);
  geometry.K = static_cast<std::int32_t>(params.state.shape[3]);
  geometry.S = params.rows.window_capacity;
  geometry.gate = params.inputs.gate;
  geometry.activation = params.inputs.q.dtype;
  geometry.state = params.state.dtype;
  bool anchored = false;
  if (conv_) {
    geometry.W = static_cast<std::int32_t>(conv_->weight.shape[1]);
    geometry.channels = static_cast<std::int32_t>(conv_->x.shape[1]);
    anchored = conv_->line_kind == LineKind::anchored;
  }
  const Sizes bytes = sizes(geometry);
  if (!traffic_.memory) traffic_.memory.emplace();
  traffic_.memory->records += anchored ? bytes.page_anchored : bytes.page_rolled;
  traffic_.memory->snapshots += bytes.snapshots;
}

bool TrafficMeter::known(std::span<const Layer> layers) const {
  return std::any_of(layers.begin(), layers.end(), [&](const Layer& layer) { return layers_.contains(layer.state.data); });
}

void TrafficMeter::add_commit(const CommitParams& params, const Counters& counted) {
  if (!known(params.layers)) return;
  traffic_.moved += states_and_records(counted) + counted.line_read + counted.line_written;
  for (const Layer& layer : params.layers) {
    if (!is_first(layer.state)) continue;
    const CommitGroup& group = params.groups[static_cast<std::size_t>(layer.group)];
    for (std::int64_t i = 0; i < group.commit_len.shape[0]; ++i) {
      const std::int32_t count = cpu::i32_at(group.commit_len, i), source = cpu::i32_at(group.state_indices, i);
      if (is_dead_commit(count, source, cpu::i32_at(group.final_indices, i), params.null_block_id)) continue;
      traffic_.accepted += layer.pending.present() ? lazy_fold_count(count, cpu::i32_at(layer.pending, source)) : count;
    }
  }
}

void TrafficMeter::add_materialize(const MaterializeParams& params, const Counters& counted) {
  if (!known(params.layers)) return;
  traffic_.moved += states_and_records(counted) + counted.line_read + counted.line_written;
  for (const Layer& layer : params.layers) {
    if (!is_first(layer.state)) continue;
    for (std::int64_t i = 0; i < params.blocks.shape[0]; ++i) {
      const std::int32_t block = cpu::i32_at(params.blocks, i);
      if (is_null(block, params.null_block_id)) continue;
      traffic_.accepted += lazy_fold_count(cpu::i32_at(params.num_accepted, i), cpu::i32_at(layer.pending, block));
    }
  }
}

}  // namespace recoverssm::trace
