// Construction: pools of the session's own or the caller's, as the operations take them.
#include <algorithm>

#include "api/devices.h"
#include "contract/rules.h"
#include "session/config.h"
#include "session/state.h"

namespace recoverssm {

namespace {

// Shapes of a layer's tensors for a pool of `blocks` blocks. Views without data where own memory is still to come.
LayerPool shape_of(const SessionConfig& config, const LayerConfig& layer) {
  const std::int64_t blocks = config.groups[static_cast<std::size_t>(layer.group)].blocks, S = config.window_capacity;
  LayerPool pool;
  if (layer.W > 0) {
    pool.line = {nullptr, layer.activation, {blocks, line_columns(config.line_kind, history_of(layer), S), channels_of(layer)}};
  }
  if (layer.kind == LayerKind::short_conv) return pool;
  pool.state = {nullptr, layer.state, {blocks, layer.HV, layer.V, layer.K}};
  if (gate_of(layer) == Gate::gdn) {
    pool.records.packed = {nullptr, DType::f32, {blocks, layer.HV, S, layer.V + layer.K + 1}};
  } else {
    pool.records.corrections = {nullptr, DType::f32, {blocks, layer.HV, S, layer.V}};
    pool.records.key_gate = {nullptr, layer.activation, {blocks, layer.HV, S, std::int64_t{2} * layer.K}};
  }
  if (config.lazy) pool.pending = {nullptr, DType::i32, {blocks}};
  return pool;
}

constexpr auto kPoolViews = {&LayerPool::line, &LayerPool::state, &LayerPool::pending};
constexpr auto kRecordViews = {&Records::packed, &Records::corrections, &Records::key_gate};

void give_memory(const MemoryPlace& place, TensorView& view, std::vector<Memory>& memory) {
  if (!view.present()) return;
  memory.push_back(allocate(place, std::max<std::int64_t>(view.elements() * size_of(view.dtype), 1)));
  view.data = memory.back().get();
}

// A caller's view may have other strides and more blocks or columns than the session asks for, nothing else.
void check_given(Check& check, const Name& name, const TensorView& given, const TensorView& wanted) {
  if (!check.ok() || (!given.present() && !wanted.present())) return;
  if (!wanted.present()) return check.absent(name, given, "none for this layer");
  switch (wanted.dims) {
    case 1:
      return check.view(name, given, wanted.dtype, {at_least("groups.blocks", wanted.shape[0])});
    case 3:
      return check.view(name, given, wanted.dtype,
                        {at_least("groups.blocks", wanted.shape[0]), at_least("columns", wanted.shape[1]), {"C", wanted.shape[2]}});
    default:
      return check.view(name, given, wanted.dtype,
                        {at_least("groups.blocks", wanted.shape[0]),
                         {"HV", wanted.shape[1]},
                         {"rows", wanted.shape[2]},
                         {"elements", wanted.shape[3]}});
  }
}

void check_given(Check& check, std::int64_t index, const LayerPool& given, const LayerPool& wanted) {
  const Name name = Name("pools").at(index);
  check_given(check, name.dot("line"), given.line, wanted.line);
  check_given(check, name.dot("state"), given.state, wanted.state);
  check_given(check, name.dot("pending"), given.pending, wanted.pending);
  check_given(check, name.dot("records.packed"), given.records.packed, wanted.records.packed);
  check_given(check, name.dot("records.corrections"), given.records.corrections, wanted.records.corrections);
  check_given(check, name.dot("records.key_gate"), given.records.key_gate, wanted.records.key_gate);
}

Layer layer_of(const SessionConfig& config, const LayerConfig& layer, const LayerPool& pool) {
  Layer l{.group = layer.group,
          .line = pool.line,
          .line_kind = config.line_kind,
          .conv_taps = layer.W == 0 ? 0 : static_cast<std::int32_t>(history_of(layer)) + 1,
          .state = pool.state,
          .records = pool.records,
          .pending = pool.pending,
          .gate = gate_of(layer)};
  if (layer.kind != LayerKind::kda) return l;
  l.A_log = layer.A_log, l.dt_bias = layer.dt_bias, l.lower_bound = layer.lower_bound, l.l2norm = layer.l2norm;
  l.softplus_beta = layer.softplus_beta, l.softplus_threshold = layer.softplus_threshold;
  return l;
}

void require_backend(Backend backend) {
  if (backend != Backend::cpu && backend != Backend::cuda && backend != Backend::sycl) {
    throw Error(
        {ErrorKind::unsupported, text("session: backend: value ", static_cast<int>(backend), ", expected cpu, cuda or sycl")});
  }
  if (backend == Backend::cpu) return;
  if (const std::string reason = unavailable_reason(backend); !reason.empty()) {
    throw Error(
        {ErrorKind::unsupported, text("session: backend: ", name_of(backend), ", ", reason, ", expected one that runs here")});
  }
}

std::unique_ptr<SessionState> make_state(SessionConfig config, const std::span<const LayerPool>* given) {
  (void)session_sizes(config);
  require_backend(config.backend);
  auto state = std::make_unique<SessionState>(std::move(config));
  const SessionConfig& c = state->config;
  const MemoryPlace& place = state->place;
  if (place.on_device()) {
    state->flag = allocate_staging(place, sizeof(DeviceFlag));
    new (state->flag.get()) DeviceFlag{};
  }
  Check check("session");
  if (given != nullptr && given->size() != c.layers.size()) {
    check.invalid("pools", text(given->size(), " pools"), text("one a layer, ", c.layers.size()));
  }
  for (std::size_t l = 0; check.ok() && l < c.layers.size(); ++l) {
    LayerPool pool = shape_of(c, c.layers[l]);
    if (given != nullptr) {
      check_given(check, static_cast<std::int64_t>(l), (*given)[l], pool);
      pool = (*given)[l];
    } else {
      for (const auto view : kPoolViews) give_memory(place, pool.*view, state->memory);
      for (const auto view : kRecordViews) give_memory(place, pool.records.*view, state->memory);
    }
    state->pools.push_back(pool);
  }
  if (!check.ok()) throw Error(check.take());

  state->group_layers.resize(c.groups.size());
  for (std::size_t l = 0; l < c.layers.size(); ++l) {
    state->layers.push_back(layer_of(c, c.layers[l], state->pools[l]));
    state->group_layers[static_cast<std::size_t>(c.layers[l].group)].push_back(state->layers.back());
    state->has_short_conv = state->has_short_conv || c.layers[l].kind == LayerKind::short_conv;
    state->conv_bytes_per_token = std::max(state->conv_bytes_per_token, channels_of(c.layers[l]) * size_of(c.layers[l].activation));
  }
  // Strides, overlaps and kda's parameters are what commit says they must be. No row: nothing is planned.
  TensorView none(nullptr, DType::i32, {0});
  const std::vector<CommitGroup> no_rows(c.groups.size(), CommitGroup{none, none, none, none, none});
  if (Status status = validate(CommitParams{
          .groups = no_rows, .layers = state->layers, .window_capacity = c.window_capacity, .null_block_id = c.null_block_id});
      !status.ok()) {
    throw Error(std::move(status));
  }
  for (const LayerPool& pool : state->pools) clear_pending(place, pool.pending);
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    state->blocks.emplace_back(c.groups[g].blocks, c.null_block_id);
    state->one_block_size = state->one_block_size && c.groups[g].block_size == c.groups[0].block_size;
    bool gdn = false, kda = false;
    for (const LayerConfig& layer : c.layers) {
      if (layer.group != static_cast<std::int32_t>(g)) continue;
      gdn = gdn || layer.kind == LayerKind::gdn;
      kda = kda || layer.kind == LayerKind::kda;
    }
    state->layouts.push_back(joined_layouts(gdn, kda));
  }
  return state;
}

}  // namespace

Session::Session(SessionConfig config) : state_(make_state(std::move(config), nullptr)) {}
Session::Session(SessionConfig config, std::span<const LayerPool> pools) : state_(make_state(std::move(config), &pools)) {}
Session::~Session() = default;

// Nothing may use what is given back. A device that fails here has said so to an earlier call, or nobody is left to be told.
SessionState::~SessionState() {
  if (place.on_device()) (void)place.memory().wait(place.stream);
}

}  // namespace recoverssm
