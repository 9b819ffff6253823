#include "bench_cuda/layer.h"

namespace recoverssm::bench_cuda {

TensorView LayerData::add(DType dtype, std::initializer_list<std::int64_t> dims, float low, float high) {
  TensorView view(nullptr, dtype, dims);
  const std::int64_t count = view.elements();
  const auto bytes = static_cast<std::size_t>(count * size_of(dtype));
  memory_.push_back(std::make_unique<Memory>(bytes, managed_));
  view.data = memory_.back()->data();
  fill_random(view.data, dtype, count, low, high, seed_ * 101 + static_cast<std::uint32_t>(memory_.size()), stream_);
  regions_.emplace_back(view.data, bytes);
  return view;
}

TensorView LayerData::add_i32(const std::vector<std::int32_t>& values, std::initializer_list<std::int64_t> dims) {
  TensorView view(nullptr, DType::i32, dims);
  memory_.push_back(std::make_unique<Memory>(values.size() * 4, managed_));
  view.data = memory_.back()->data();
  check(cudaMemcpyAsync(view.data, values.data(), values.size() * 4, cudaMemcpyHostToDevice, stream_), "copy of index data");
  check(cudaStreamSynchronize(stream_), "copy of index data");
  regions_.emplace_back(view.data, values.size() * 4);
  return view;
}

LayerData::LayerData(const Shape& s, std::int64_t blocks_per_row, std::int64_t extra, std::uint32_t seed, cudaStream_t stream,
                     bool managed)
    : shape_(s), blocks_(1 + s.rows * blocks_per_row + extra), seed_(seed), stream_(stream), managed_(managed) {
  const bool kda = s.gate == Gate::kda;
  const std::int64_t C = s.channels(), n = s.tokens(), columns = s.W - 1 + s.window;
  const DType T = s.activation;
  x = add(T, {n, C}, -2.0F, 2.0F);
  mixed = add(T, {n, C}, -2.0F, 2.0F);
  a = kda ? add(T, {n, s.HV, s.K}, -3.0F, 1.0F) : add(T, {n, s.HV}, -3.0F, 1.0F);
  b = add(T, {n, s.HV}, -2.0F, 2.0F);
  A_log = add(DType::f32, {s.HV}, -2.0F, 1.0F);
  dt_bias = kda ? add(DType::f32, {s.HV, s.K}, -1.0F, 1.0F) : add(DType::f32, {s.HV}, -1.0F, 1.0F);
  weight = add(T, {C, s.W}, -0.5F, 0.5F);
  out = add(T, {n, s.HV, s.V}, 0.0F, 0.0F);
  state = add(s.state, {blocks_, s.HV, s.V, s.K}, -0.2F, 0.2F);
  line = add(T, {blocks_, columns, C}, -2.0F, 2.0F);
  if (kda) {
    corrections = add(DType::f32, {blocks_, s.HV, s.window, s.V}, -1.0F, 1.0F);
    key_gate = add(T, {blocks_, s.HV, s.window, 2 * s.K}, -1.0F, 1.0F);
  } else {
    packed = add(DType::f32, {blocks_, s.HV, s.window, s.V + s.K + 1}, 0.1F, 0.9F);
  }
  std::vector<std::int32_t> starts, block_ids, table_ids, ones, kept, waiting(static_cast<std::size_t>(blocks_));
  for (std::int64_t i = 0; i < s.rows; ++i) {
    starts.push_back(static_cast<std::int32_t>(i * s.window));
    block_ids.push_back(static_cast<std::int32_t>(1 + i * blocks_per_row));
    waiting[static_cast<std::size_t>(block_ids.back())] = static_cast<std::int32_t>(s.window);
    ones.push_back(1);
    kept.push_back(static_cast<std::int32_t>(s.window > 1 ? s.window - 1 : 1));
    for (std::int64_t t = 0; t < s.window; ++t) {
      table_ids.push_back(static_cast<std::int32_t>(1 + i * blocks_per_row + (blocks_per_row > 1 ? t : 0)));
    }
  }
  starts.push_back(static_cast<std::int32_t>(n));
  offsets = add_i32(starts, {s.rows + 1});
  ids = add_i32(block_ids, {s.rows});
  table = add_i32(table_ids, {s.rows, s.window});
  accepted = add_i32(ones, {s.rows});
  lazy_accepted = add_i32(kept, {s.rows});
  pending = add_i32(waiting, {blocks_});
}

std::vector<std::pair<void*, std::size_t>> LayerData::regions() const { return regions_; }

RuleInputs LayerData::inputs() const {
  const Shape& s = shape_;
  const std::int64_t C = s.channels(), n = s.tokens(), size = size_of(s.activation);
  auto* const base = static_cast<std::byte*>(mixed.data);
  RuleInputs in;
  in.gate = s.gate;
  in.q = TensorView(base, s.activation, {n, s.H, s.K}, {C, s.K, 1});
  in.k = TensorView(base + s.H * s.K * size, s.activation, {n, s.H, s.K}, {C, s.K, 1});
  in.v = TensorView(base + 2 * s.H * s.K * size, s.activation, {n, s.HV, s.V}, {C, s.V, 1});
  in.a = a;
  in.b = b;
  in.A_log = A_log;
  in.dt_bias = dt_bias;
  return in;
}

Rows LayerData::rows() const {
  Rows r;
  r.query_start_loc = offsets;
  r.state_indices = ids;
  r.window_capacity = static_cast<std::int32_t>(shape_.window);
  return r;
}

GatedDeltaRuleVerifyParams LayerData::verify(bool lazy) const {
  GatedDeltaRuleVerifyParams p{
      .inputs = inputs(), .state = state, .out = out, .records = {packed, corrections, key_gate}, .rows = rows(), .pending = {}};
  if (lazy) {
    p.pending = pending;
    p.rows.num_accepted = lazy_accepted;
  }
  return p;
}

GatedDeltaRuleSnapshotsParams LayerData::snapshots() const {
  GatedDeltaRuleSnapshotsParams p{.inputs = inputs(), .state = state, .out = out, .rows = rows()};
  p.rows.state_indices = table;
  p.rows.num_accepted = accepted;
  return p;
}

GatedDeltaRuleParams LayerData::plain() const {
  GatedDeltaRuleParams p{.inputs = inputs(), .state = state, .out = out, .rows = rows(), .pending = {}, .records = {}};
  return p;
}

CausalConv1dWindowParams LayerData::conv() const {
  return {.x = x,
          .weight = weight,
          .bias = {},
          .activation = Activation::silu,
          .out = mixed,
          .line = line,
          .line_kind = LineKind::anchored,
          .rows = rows()};
}

Layer LayerData::layer(bool lazy) const {
  Layer l;
  l.line = line;
  l.line_kind = LineKind::anchored;
  l.conv_taps = static_cast<std::int32_t>(shape_.W);
  l.state = state;
  l.records = {packed, corrections, key_gate};
  l.gate = shape_.gate;
  if (shape_.gate == Gate::kda) {
    l.A_log = A_log;
    l.dt_bias = dt_bias;
  }
  if (lazy) l.pending = pending;
  return l;
}

}  // namespace recoverssm::bench_cuda
