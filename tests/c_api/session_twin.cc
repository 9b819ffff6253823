#include "session_twin.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/tensor.h"

namespace c_api_tests {

using namespace recoverssm;

recoverssm_tensor c_tensor(const TensorView& view) {
  recoverssm_tensor tensor{};
  tensor.data = view.data;
  tensor.dtype = static_cast<std::int32_t>(view.dtype);
  tensor.dims = view.dims;
  for (std::size_t d = 0; d < kMaxDims; ++d) tensor.shape[d] = view.shape[d], tensor.stride[d] = view.stride[d];
  return tensor;
}

namespace {

std::vector<recoverssm_step_row> c_rows(std::span<const StepRow> from) {
  std::vector<recoverssm_step_row> rows;
  for (const StepRow& row : from) {
    recoverssm_step_row to{};
    to.request = row.request;
    to.kind = static_cast<std::int32_t>(row.kind);
    to.tokens = row.tokens;
    to.has_num_computed = row.num_computed >= 0 ? 1 : 0;
    to.num_computed = row.num_computed >= 0 ? row.num_computed : -77;  // not looked at
    rows.push_back(to);
  }
  return rows;
}

}  // namespace

CConfig::CConfig(const SessionConfig& from) {
  for (const LayerConfig& layer : from.layers) {
    recoverssm_layer_config to;
    recoverssm_layer_config_init(&to, sizeof to);
    to.kind = static_cast<std::int32_t>(layer.kind);
    to.group = layer.group;
    to.H = layer.H, to.HV = layer.HV, to.K = layer.K, to.V = layer.V;
    to.W = layer.W, to.channels = layer.channels, to.dilation = layer.dilation;
    to.activation = static_cast<std::int32_t>(layer.activation);
    to.state = static_cast<std::int32_t>(layer.state);
    to.weight = c_tensor(layer.weight), to.bias = c_tensor(layer.bias);
    to.A_log = c_tensor(layer.A_log), to.dt_bias = c_tensor(layer.dt_bias);
    to.conv_activation = static_cast<std::int32_t>(layer.conv_activation);
    to.has_lower_bound = layer.lower_bound ? 1 : 0;
    to.lower_bound = layer.lower_bound.value_or(99);
    to.has_scale = layer.scale ? 1 : 0;
    to.scale = layer.scale.value_or(99);
    to.l2norm = layer.l2norm ? 1 : 0;
    to.softplus_beta = layer.softplus_beta, to.softplus_threshold = layer.softplus_threshold;
    layers.push_back(to);
  }
  for (const GroupConfig& group : from.groups) {
    recoverssm_group_config to;
    recoverssm_group_config_init(&to, sizeof to);
    to.blocks = group.blocks;
    to.has_block_size = group.block_size ? 1 : 0;
    to.block_size = group.block_size.value_or(99);
    groups.push_back(to);
  }
  recoverssm_session_config_init(&config, sizeof config);
  config.layers = layers.data(), config.layer_count = layers.size();
  config.groups = groups.data(), config.group_count = groups.size();
  config.window_capacity = from.window_capacity;
  config.line_kind = static_cast<std::int32_t>(from.line_kind);
  config.lazy = from.lazy ? 1 : 0;
  config.null_block_id = from.null_block_id;
  config.kept_boundaries = from.kept_boundaries;
  config.backend = static_cast<std::int32_t>(from.backend);
  config.stream = from.stream;
}

Twin::Twin(const session_tests::TinyShape& shape) : model(shape), c_model(shape), cpp(model.config()) {
  const CConfig config(c_model.config());
  EXPECT_EQ(recoverssm_context_create(1, &c_context), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_EQ(recoverssm_session_create(&config.config, nullptr, 0, &c), RECOVERSSM_OK) << recoverssm_last_error();
  // New pools hold anything. Here they hold the same, NaN, in both sessions.
  for (std::int32_t layer = 0; layer < session_tests::Tiny::kLayers; ++layer) {
    recoverssm_layer_pool pool;
    recoverssm_records records;
    recoverssm_layer_pool_init(&pool, sizeof pool);
    recoverssm_records_init(&records, sizeof records);
    EXPECT_EQ(recoverssm_session_pool(c, layer, &pool, &records), RECOVERSSM_OK) << recoverssm_last_error();
    const LayerPool& own = cpp.pool(layer);
    const std::pair<const TensorView&, void*> tensors[] = {{own.line, pool.line.data},
                                                           {own.state, pool.state.data},
                                                           {own.records.packed, records.packed.data},
                                                           {own.records.corrections, records.corrections.data},
                                                           {own.records.key_gate, records.key_gate.data}};
    for (const auto& [view, data] : tensors) {
      if (!view.present()) continue;
      const auto bytes = static_cast<std::size_t>(view.elements() * size_of(view.dtype));
      std::memset(view.data, 0xFF, bytes);
      std::memset(data, 0xFF, bytes);
    }
  }
}

Twin::~Twin() {
  recoverssm_session_destroy(c);
  recoverssm_context_destroy(c_context);
}

// Whether both accepted the call. They must agree, to the word.
template <class Cpp, class C>
bool Twin::both(Cpp&& cpp_call, C&& c_call) {
  int expected = RECOVERSSM_OK;
  refusal.clear();
  try {
    cpp_call();
  } catch (const Error& error) {
    expected = static_cast<int>(error.kind());
    refusal = error.what();
  }
  const int got = c_call();
  EXPECT_EQ(got, expected) << recoverssm_last_error() << " (C), " << refusal << " (C++)";
  EXPECT_EQ(got != RECOVERSSM_OK ? recoverssm_last_error() : "", refusal);
  return expected == RECOVERSSM_OK && got == RECOVERSSM_OK;
}

template <class Cpp, class C>
std::uint64_t Twin::handle(Cpp&& cpp_call, C&& c_call) {
  std::uint64_t expected = 0, got = 77;
  both([&] { expected = cpp_call(); }, [&] { return c_call(&got); });
  EXPECT_EQ(got, expected);  // 0 if refused
  return expected;
}

std::uint64_t Twin::admit() {
  return handle([&] { return cpp.admit(); }, [&](std::uint64_t* id) { return recoverssm_session_admit(c, id); });
}
std::uint64_t Twin::admit(std::uint64_t prefix) {
  return handle([&] { return cpp.admit(prefix, context); },
                [&](std::uint64_t* id) { return recoverssm_session_admit_prefix(c, prefix, c_context, id); });
}
void Twin::finish(std::uint64_t request) {
  both([&] { cpp.finish(request); }, [&] { return recoverssm_session_finish(c, request); });
}
std::uint64_t Twin::finish_and_hold(std::uint64_t request) {
  return handle([&] { return cpp.finish_and_hold(request, context); },
                [&](std::uint64_t* id) { return recoverssm_session_finish_and_hold(c, request, c_context, id); });
}
void Twin::preempt(std::uint64_t request) {
  both([&] { cpp.preempt(request); }, [&] { return recoverssm_session_preempt(c, request); });
}

bool Twin::fits(std::span<const StepRow> rows) {
  bool expected = false;
  std::int32_t got = 77;
  const auto given = c_rows(rows);
  const bool accepted =
      both([&] { expected = cpp.fits(rows); }, [&] { return recoverssm_session_fits(c, given.data(), given.size(), &got); });
  EXPECT_EQ(got, accepted ? (expected ? 1 : 0) : 77);
  return expected;
}

std::uint64_t Twin::open_step(std::span<const StepRow> rows) {
  const auto given = c_rows(rows);
  return handle([&] { return cpp.open_step(rows, context); },
                [&](std::uint64_t* id) { return recoverssm_session_open_step(c, given.data(), given.size(), c_context, id); });
}

void Twin::forward(std::uint64_t step, std::int32_t tokens, std::uint32_t seed) {
  model.inputs(tokens, seed);
  c_model.inputs(tokens, seed);
  for (std::int32_t layer = 0; layer < session_tests::Tiny::kShortConv; ++layer) {
    const DeltaInputs from = c_model.delta(layer);
    recoverssm_delta_inputs inputs;
    recoverssm_delta_inputs_init(&inputs, sizeof inputs);
    inputs.x = c_tensor(from.x), inputs.a = c_tensor(from.a), inputs.b = c_tensor(from.b), inputs.out = c_tensor(from.out);
    both([&] { cpp.forward(step, layer, model.delta(layer), context); },
         [&] { return recoverssm_session_forward_delta(c, step, layer, &inputs, c_context); });
  }
  const ShortConvInputs from = c_model.short_conv();
  recoverssm_short_conv_inputs inputs;
  recoverssm_short_conv_inputs_init(&inputs, sizeof inputs);
  inputs.x = c_tensor(from.x), inputs.residual = c_tensor(from.residual), inputs.outer_residual = c_tensor(from.outer_residual);
  constexpr std::int32_t kLayer = session_tests::Tiny::kShortConv;
  both([&] { cpp.forward(step, kLayer, model.short_conv(), context); },
       [&] { return recoverssm_session_forward_short_conv(c, step, kLayer, &inputs, c_context); });
  for (std::int32_t layer = 0; layer < session_tests::Tiny::kLayers; ++layer) {
    const auto expected = model.output(layer), got = c_model.output(layer);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got.begin(), got.end())) << "outputs of layer " << layer;
  }
}

void Twin::commit(std::uint64_t step, std::span<const Accepted> accepted) {
  std::vector<recoverssm_accepted> given;
  for (const Accepted& a : accepted) given.push_back({a.request, a.count, 0});
  both([&] { cpp.commit(step, accepted, context); },
       [&] { return recoverssm_session_commit(c, step, given.data(), given.size(), c_context); });
}
void Twin::abandon(std::uint64_t step) {
  both([&] { cpp.abandon(step); }, [&] { return recoverssm_session_abandon(c, step); });
}
void Twin::materialize(std::span<const std::uint64_t> requests) {
  both([&] { cpp.materialize(requests, context); },
       [&] { return recoverssm_session_materialize(c, requests.data(), requests.size(), c_context); });
}

std::vector<std::int64_t> Twin::exportable(std::uint64_t request) {
  std::vector<std::int64_t> expected, got;
  std::size_t count = 77;
  const bool accepted = both([&] { expected = cpp.exportable(request); },
                             [&] { return recoverssm_session_exportable(c, request, nullptr, 0, &count); });
  EXPECT_EQ(count, accepted ? expected.size() : 0);
  got.assign(count + 1, -77);
  if (accepted) {
    EXPECT_EQ(recoverssm_session_exportable(c, request, got.data(), count, &count), RECOVERSSM_OK);
    EXPECT_EQ(got.back(), -77);
    got.pop_back();
    EXPECT_EQ(got, expected);
  }
  return expected;
}

std::uint64_t Twin::fork(std::uint64_t request) {
  return handle([&] { return cpp.fork(request, context); },
                [&](std::uint64_t* id) { return recoverssm_session_fork(c, request, c_context, id); });
}
std::uint64_t Twin::hold(std::uint64_t request, std::int64_t tokens) {
  return handle([&] { return cpp.hold(request, tokens, context); },
                [&](std::uint64_t* id) { return recoverssm_session_hold(c, request, tokens, c_context, id); });
}
void Twin::release(std::uint64_t prefix) {
  both([&] { cpp.release(prefix); }, [&] { return recoverssm_session_release(c, prefix); });
}
std::int64_t Twin::prefix_tokens(std::uint64_t prefix) {
  std::int64_t expected = 0, got = -77;
  const bool accepted =
      both([&] { expected = cpp.tokens(prefix); }, [&] { return recoverssm_session_prefix_tokens(c, prefix, &got); });
  EXPECT_EQ(got, accepted ? expected : -77);
  return expected;
}

std::vector<std::byte> Twin::export_checkpoint(std::uint64_t request, std::int64_t tokens, std::uint64_t tag) {
  std::vector<std::byte> expected, got;
  std::size_t size = 77;
  EXPECT_EQ(recoverssm_session_export_checkpoint(c, request, tokens, tag, c_context, nullptr, 0, &size), RECOVERSSM_OK);
  got.resize(size + 1, std::byte{0x5A});
  const bool accepted =
      both([&] { expected = cpp.export_checkpoint(request, tokens, tag, context); },
           [&] { return recoverssm_session_export_checkpoint(c, request, tokens, tag, c_context, got.data(), size, &size); });
  EXPECT_EQ(size, accepted ? expected.size() : 0);
  EXPECT_EQ(got.back(), std::byte{0x5A});
  got.resize(size);
  EXPECT_TRUE(got == expected);
  return expected;
}

void Twin::restore(std::uint64_t request, std::span<const std::byte> checkpoint, std::int64_t tokens, std::uint64_t tag) {
  both([&] { cpp.restore(request, checkpoint, tokens, tag); },
       [&] { return recoverssm_session_restore(c, request, checkpoint.data(), checkpoint.size(), tokens, tag); });
}

RequestInfo Twin::info(std::uint64_t request) {
  RequestInfo expected;
  recoverssm_request_info got;
  recoverssm_request_info_init(&got, sizeof got);
  got.tokens = -77;
  if (!both([&] { expected = cpp.info(request); }, [&] { return recoverssm_session_info(c, request, &got); })) {
    EXPECT_EQ(got.tokens, -77);
    return expected;
  }
  EXPECT_EQ(got.phase, static_cast<int>(expected.phase));
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.waiting, expected.waiting);
  EXPECT_EQ(got.open_step, expected.open_step);
  std::vector<std::int32_t> blocks(expected.blocks.size() + 1, -77);
  std::size_t count = 0;
  EXPECT_EQ(recoverssm_session_blocks(c, request, blocks.data(), blocks.size(), &count), RECOVERSSM_OK);
  EXPECT_EQ(count, expected.blocks.size());
  EXPECT_EQ(blocks.back(), -77);
  blocks.pop_back();
  EXPECT_EQ(blocks, expected.blocks);
  return expected;
}

void Twin::expect_same() {
  const SessionConfig& config = cpp.config();
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    const auto group = static_cast<std::int32_t>(g);
    std::int32_t free = -77;
    EXPECT_EQ(recoverssm_session_free_blocks(c, group, &free), RECOVERSSM_OK);
    EXPECT_EQ(free, cpp.free_blocks(group));
    for (std::int32_t block = 0; block < config.groups[g].blocks; ++block) {
      BlockTag expected;
      recoverssm_block_tag got;
      recoverssm_block_tag_init(&got, sizeof got);
      if (!both([&] { expected = cpp.block_tag(group, block); },
                [&] { return recoverssm_session_block_tag(c, group, block, &got); }))
        continue;
      EXPECT_EQ(got.owner, expected.owner);
      EXPECT_EQ(got.tokens, expected.tokens);
      EXPECT_EQ(got.step, expected.step);
      EXPECT_EQ(got.references, expected.references);
      EXPECT_EQ(got.layout, expected.layout);
    }
  }
  for (std::int32_t layer = 0; layer < session_tests::Tiny::kLayers; ++layer) {
    const LayerPool& expected = cpp.pool(layer);
    recoverssm_layer_pool got;
    recoverssm_records records;
    recoverssm_layer_pool_init(&got, sizeof got);
    recoverssm_records_init(&records, sizeof records);
    EXPECT_EQ(recoverssm_session_pool(c, layer, &got, &records), RECOVERSSM_OK) << recoverssm_last_error();
    EXPECT_EQ(got.records != nullptr, expected.records.present());
    const auto same = [&](const char* name, const TensorView& a, const recoverssm_tensor& b) {
      SCOPED_TRACE("layer " + std::to_string(layer) + ", " + name);
      ASSERT_EQ(b.dims, a.dims);
      if (!a.present()) return;
      TensorView other = a;
      other.data = b.data;
      EXPECT_EQ(b.dtype, static_cast<int>(a.dtype));
      EXPECT_TRUE(std::equal(a.shape.begin(), a.shape.end(), b.shape));
      EXPECT_TRUE(std::equal(a.stride.begin(), a.stride.end(), b.stride));
      EXPECT_TRUE(support::same_bits(a, other));
    };
    same("line", expected.line, got.line);
    same("state", expected.state, got.state);
    same("pending", expected.pending, got.pending);
    same("records.packed", expected.records.packed, records.packed);
    same("records.corrections", expected.records.corrections, records.corrections);
    same("records.key_gate", expected.records.key_gate, records.key_gate);
  }
  std::int32_t requests = -1, steps = -1, prefixes = -1;
  EXPECT_EQ(recoverssm_session_requests(c, &requests), RECOVERSSM_OK);
  EXPECT_EQ(recoverssm_session_open_steps(c, &steps), RECOVERSSM_OK);
  EXPECT_EQ(recoverssm_session_prefixes(c, &prefixes), RECOVERSSM_OK);
  EXPECT_EQ(requests, cpp.requests());
  EXPECT_EQ(steps, cpp.open_steps());
  EXPECT_EQ(prefixes, cpp.prefixes());

  recoverssm_session_counts counts;
  recoverssm_counters traffic;
  recoverssm_session_counts_init(&counts, sizeof counts);
  recoverssm_counters_init(&traffic, sizeof traffic);
  EXPECT_EQ(recoverssm_session_counters(c, &counts, &traffic), RECOVERSSM_OK) << recoverssm_last_error();
  const SessionCounters& expected = cpp.counters();
  EXPECT_EQ(counts.steps_opened, expected.steps_opened);
  EXPECT_EQ(counts.steps_committed, expected.steps_committed);
  EXPECT_EQ(counts.steps_abandoned, expected.steps_abandoned);
  EXPECT_EQ(counts.prefill_rows, expected.prefill_rows);
  EXPECT_EQ(counts.decode_rows, expected.decode_rows);
  EXPECT_EQ(counts.window_rows, expected.window_rows);
  EXPECT_EQ(counts.prefill_tokens, expected.prefill_tokens);
  EXPECT_EQ(counts.decode_tokens, expected.decode_tokens);
  EXPECT_EQ(counts.verified_tokens, expected.verified_tokens);
  EXPECT_EQ(counts.kept_tokens, expected.kept_tokens);
  EXPECT_EQ(counts.library_calls, expected.library_calls);
  EXPECT_EQ(counts.grouped_calls, expected.grouped_calls);
  EXPECT_EQ(counts.per_group_calls, expected.per_group_calls);
  EXPECT_EQ(counts.folded_rows, expected.folded_rows);
  EXPECT_EQ(counts.moved_rows, expected.moved_rows);
  EXPECT_EQ(counts.dead_rows, expected.dead_rows);
  EXPECT_EQ(counts.refused_calls, expected.refused_calls);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(counts.refused_by_kind[i], expected.refused_by_kind[i]);
  EXPECT_EQ(counts.per_group_reason, expected.per_group_reason.substr(0, sizeof counts.per_group_reason - 1));
  EXPECT_EQ(counts.last_refusal, expected.last_refusal.substr(0, sizeof counts.last_refusal - 1));
  EXPECT_EQ(traffic.state_written, expected.traffic.state_written);
  EXPECT_EQ(traffic.activation_read, expected.traffic.activation_read);
  EXPECT_EQ(traffic.tokens, expected.traffic.tokens);
}

}  // namespace c_api_tests
