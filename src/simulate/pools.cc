#include "simulate/pools.h"

namespace recoverssm::simulate {

namespace {

constexpr std::int64_t kAlignment = 8;
constexpr std::byte kGuard{0xa5};

}  // namespace

std::int64_t GivenPools::place(Random& random, Group& group, std::int64_t bytes, bool pending) {
  const std::int64_t offset = group.page + kAlignment * random.between(0, 3);
  group.page = (offset + bytes + kAlignment - 1) / kAlignment * kAlignment;
  group.used.resize(static_cast<std::size_t>(group.page));
  group.pending.resize(static_cast<std::size_t>(group.page));
  for (std::int64_t i = offset; i < offset + bytes; ++i) {
    group.used[static_cast<std::size_t>(i)] = true;
    group.pending[static_cast<std::size_t>(i)] = pending;
  }
  return offset;
}

GivenPools::GivenPools(Random& random, const SessionConfig& config, const std::vector<LayerModel>& layers, Device& device)
    : device_(device), null_block_id_(config.null_block_id), groups_(config.groups.size()) {
  const std::int64_t S = config.window_capacity;
  // Views hold offsets until the memory is there.
  const auto view = [&](Group& group, DType dtype, std::initializer_list<std::int64_t> inner, std::int64_t blocks) {
    TensorView v(nullptr, dtype, {});
    v.dims = 1 + static_cast<int>(inner.size());
    v.shape[0] = blocks;
    std::int64_t elements = 1;
    for (std::size_t d = inner.size(); d > 0; --d) {
      v.shape[d] = inner.begin()[d - 1];
      v.stride[d] = elements;
      elements *= v.shape[d];
    }
    v.stride[0] = place(random, group, elements * size_of(dtype), dtype == DType::i32);
    return v;
  };
  for (const LayerModel& layer : layers) {
    const LayerConfig& c = layer.config;
    Group& group = groups_[static_cast<std::size_t>(c.group)];
    const std::int64_t blocks = config.groups[static_cast<std::size_t>(c.group)].blocks;
    LayerPool pool;
    if (c.W > 0) {
      // More columns than needed are fine.
      const std::int64_t columns =
          layer.history() + S - (config.line_kind == LineKind::rolled ? 1 : 0) + (random.between(0, 3) == 0 ? 1 : 0);
      pool.line = view(group, c.activation, {columns, layer.channels()}, blocks);
      if (random.between(0, 1) == 0) pool.line.stride[1] = 1, pool.line.stride[2] = columns;  // channels first in memory
    }
    if (layer.rule()) {
      pool.state = view(group, c.state, {c.HV, c.V, c.K}, blocks);
      if (layer.kda()) {
        pool.records.corrections = view(group, DType::f32, {c.HV, S, c.V}, blocks);
        pool.records.key_gate = view(group, c.activation, {c.HV, S, 2 * c.K}, blocks);
      } else {
        pool.records.packed = view(group, DType::f32, {c.HV, S, c.V + c.K + 1}, blocks);
      }
      if (config.lazy) pool.pending = view(group, DType::i32, {}, blocks);
    }
    pools_.push_back(pool);
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    group.page += kAlignment * random.between(0, 2);
    group.used.resize(static_cast<std::size_t>(group.page));
    group.pending.resize(static_cast<std::size_t>(group.page));
    group.memory.assign(static_cast<std::size_t>(group.page * config.groups[g].blocks), kGuard);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (layers[l].config.group != static_cast<std::int32_t>(g)) continue;
      for (TensorView* v : {&pools_[l].line, &pools_[l].state, &pools_[l].records.packed, &pools_[l].records.corrections,
                            &pools_[l].records.key_gate, &pools_[l].pending}) {
        if (!v->present()) continue;
        v->data = group.memory.data() + v->stride[0];
        v->stride[0] = group.page / size_of(v->dtype);
      }
    }
  }
  // Blocks that can be handed out begin as NaN: a state read before it is written shows.
  for (Group& group : groups_) {
    for (std::size_t i = 0; i < group.memory.size(); ++i) {
      const auto block = static_cast<std::int32_t>(i / static_cast<std::size_t>(group.page));
      const auto at = i % static_cast<std::size_t>(group.page);
      if (group.used[at] && block > null_block_id_) group.memory[i] = kUnwritten;
    }
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto g = static_cast<std::size_t>(layers[l].config.group);
    for (TensorView* v : {&pools_[l].line, &pools_[l].state, &pools_[l].records.packed, &pools_[l].records.corrections,
                          &pools_[l].records.key_gate, &pools_[l].pending}) {
      if (v->present()) *v = device.up(kPoolPieces + g, groups_[g].memory, *v);
    }
  }
}

void GivenPools::look() const {
  for (std::size_t g = 0; device_.elsewhere() && g < groups_.size(); ++g) device_.down(kPoolPieces + g, groups_[g].memory);
}

std::int64_t GivenPools::damaged_bytes() const {
  look();
  std::int64_t damaged = 0;
  for (const Group& group : groups_) {
    for (std::size_t i = 0; i < group.memory.size(); ++i) {
      const auto block = static_cast<std::int32_t>(i / static_cast<std::size_t>(group.page));
      const auto at = i % static_cast<std::size_t>(group.page);
      const bool own = block > null_block_id_ ? group.used[at] : group.pending[at];
      if (!own && group.memory[i] != kGuard) ++damaged;
    }
  }
  return damaged;
}

}  // namespace recoverssm::simulate
