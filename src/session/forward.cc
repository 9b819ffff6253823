// forward: one layer of an open step, as the operations' calls. Convolutions run for all parts before any rule runs, so `out` may lie
// where `x` does.
#include <algorithm>

#include "session/config.h"
#include "session/state.h"

namespace recoverssm {
namespace {

OpenStep& step_of(SessionState& state, const char* call, StepId id) {
  const auto at = state.steps.find(id);
  if (at == state.steps.end()) fail(ErrorKind::bad_state, call, "step", text(id, ", which is not open"), "an open step");
  return at->second;
}

const LayerConfig& layer_to_run(const SessionState& state, const OpenStep& step, std::int32_t layer, bool short_conv) {
  constexpr const char* kCall = "forward";
  if (layer < 0 || layer >= static_cast<std::int64_t>(state.layers.size())) {
    fail(ErrorKind::out_of_range, kCall, "layer", text(layer), text("an index below ", state.layers.size()));
  }
  const LayerConfig& config = state.config.layers[static_cast<std::size_t>(layer)];
  if ((config.kind == LayerKind::short_conv) != short_conv) {
    fail(ErrorKind::invalid_argument, kCall, "inputs", short_conv ? "those of a short_conv" : "those of a delta rule",
         text("those of layer ", layer, ", a ", short_conv ? "delta rule" : "short_conv"));
  }
  if (step.ran[static_cast<std::size_t>(layer)]) {
    fail(ErrorKind::bad_state, kCall, "layer", text(layer, " has run in this step"), "each layer once a step");
  }
  return config;
}

void require_tokens(const char* name, const TensorView& view, std::int32_t tokens) {
  if (view.dims < 1 || view.shape[0] >= tokens) return;  // what is missing is named by the operation
  fail(ErrorKind::out_of_range, "forward", name, text(view.shape[0], " tokens"), text("at least ", tokens, ", the step's"));
}

Rows rows_of(const SessionState& state, const Part& part, std::int32_t group) {
  Rows rows{.query_start_loc = part.views.offsets,
            .state_indices = part.views.blocks[static_cast<std::size_t>(group)],
            .window_capacity = state.config.window_capacity,
            .null_block_id = state.config.null_block_id};
  if (part.plain) rows.has_initial_state = part.views.has_state;
  if (state.config.lazy) rows.num_accepted = part.views.counts;
  return rows;
}

template <class Params>
void require_valid(const SessionState& state, const Params& params) {
  must(validate(params));
  if (Support support = query_support(params, state.place.backend); !support.supported) {
    throw Error({ErrorKind::unsupported, std::move(support.reason)});
  }
}

// Calls body with the Params of one call and the operation: `use` is either "check it" or "run it".
template <class Use>
void conv_call(SessionState& state, const LayerConfig& layer, const LayerPool& pool, const DeltaInputs& in, const TensorView& mixed,
               Part& part, Use use) {
  const auto fill = [&](auto params) {
    params.x = in.x, params.weight = layer.weight, params.bias = layer.bias, params.activation = layer.conv_activation;
    params.out = mixed, params.line = pool.line, params.line_kind = state.config.line_kind;
    params.rows = rows_of(state, part, layer.group);
    return params;
  };
  if (part.plain) {
    use(fill(CausalConv1dParams{}), causal_conv1d);
  } else {
    use(fill(CausalConv1dWindowParams{}), causal_conv1d_window);
  }
}

template <class Use>
void rule_call(SessionState& state, const LayerConfig& layer, const LayerPool& pool, const DeltaInputs& in, const TensorView& mixed,
               Part& part, Use use) {
  const std::int64_t size = size_of(mixed.dtype), stride = mixed.stride[0], n = mixed.shape[0];
  const auto heads = [&](std::int64_t first, std::int64_t count, std::int64_t width) {
    std::byte* data = mixed.data == nullptr ? nullptr : static_cast<std::byte*>(mixed.data) + first * size;
    return TensorView(data, mixed.dtype, {n, count, width}, {stride, width, 1});
  };
  const std::int64_t keys = std::int64_t{layer.H} * layer.K;
  const auto fill = [&](auto params) {
    params.inputs = {.gate = gate_of(layer),
                     .q = heads(0, layer.H, layer.K),
                     .k = heads(keys, layer.H, layer.K),
                     .v = heads(2 * keys, layer.HV, layer.V),
                     .a = in.a,
                     .b = in.b,
                     .A_log = layer.A_log,
                     .dt_bias = layer.dt_bias,
                     .lower_bound = layer.lower_bound,
                     .scale = layer.scale,
                     .l2norm = layer.l2norm,
                     .softplus_beta = layer.softplus_beta,
                     .softplus_threshold = layer.softplus_threshold};
    params.state = pool.state, params.out = in.out, params.rows = rows_of(state, part, layer.group);
    params.pending = pool.pending, params.records = pool.records;
    return params;
  };
  if (part.plain) {
    auto params = fill(GatedDeltaRuleParams{});
    if (!state.config.lazy) params.records = {};
    use(params, gated_delta_rule);
  } else {
    use(fill(GatedDeltaRuleVerifyParams{}), gated_delta_rule_verify);
  }
}

ShortConvParams short_conv_params(SessionState& state, const LayerConfig& layer, const LayerPool& pool, const ShortConvInputs& in,
                                  Part& part) {
  ShortConvParams p{.x = in.x,
                    .weight = layer.weight,
                    .dilation = layer.dilation,
                    .residual = in.residual,
                    .outer_residual = in.outer_residual,
                    .line = pool.line,
                    .line_kind = part.plain ? LineKind::plain : state.config.line_kind,
                    .rows = rows_of(state, part, layer.group)};
  if (part.plain) p.rows.num_accepted = {};  // its line is compacted: open_step folds first
  return p;
}

// An operation of the layer has written. Should the next one fail, the layer can't run again (its line has moved on) and still counts as
// missing: such a step can only be abandoned.
void writes(OpenStep& step, std::int32_t layer) {
  step.touched = true;
  step.ran[static_cast<std::size_t>(layer)] = true;
}

void layer_ran(OpenStep& step, std::int32_t layer) {
  step.ran[static_cast<std::size_t>(layer)] = true;
  --step.layers_left;
}

}  // namespace

void Session::forward(StepId id, std::int32_t index, const DeltaInputs& in, Context& context) {
  SessionState& state = *state_;
  counted(state.counters, [&] {
    const CallRange range(state, "session.forward");
    require_place(state, "forward", context);
    OpenStep& step = step_of(state, "forward", id);
    const LayerConfig& layer = layer_to_run(state, step, index, false);
    const LayerPool& pool = state.pools[static_cast<std::size_t>(index)];
    for (const auto& [name, view] : {std::pair{"x", &in.x}, {"a", &in.a}, {"b", &in.b}, {"out", &in.out}}) {
      require_tokens(name, *view, step.tokens);
    }
    Check check("session.forward");
    check.view("x", in.x, layer.activation, {at_least("tokens", step.tokens), {"C", channels_of(layer)}});
    check.contiguous_last("x", in.x);
    if (!check.ok()) throw Error(check.take());
    // The operations want tensors that agree in their token counts; the caller's may be longer than the step.
    DeltaInputs cut = in;
    for (TensorView* view : {&cut.x, &cut.a, &cut.b}) view->shape[0] = step.tokens;
    const bool conv = layer.W > 0;
    TensorView mixed = cut.x;
    if (conv) mixed = {state.conv_out.get(), layer.activation, {step.tokens, channels_of(layer)}};

    const auto check_call = [&](const auto& params, auto) { require_valid(state, params); };
    const auto run_call = [&](const auto& params, void (*op)(decltype(params), Context&)) {
      run_op(state, context, op, params);
      writes(step, index);
    };
    for (Part& part : step.parts) {
      if (conv) conv_call(state, layer, pool, cut, mixed, part, check_call);
      rule_call(state, layer, pool, cut, mixed, part, check_call);
    }
    if (conv) {
      for (Part& part : step.parts) conv_call(state, layer, pool, cut, mixed, part, run_call);
    }
    for (Part& part : step.parts) rule_call(state, layer, pool, cut, mixed, part, run_call);
    layer_ran(step, index);
  });
}

void Session::forward(StepId id, std::int32_t index, const ShortConvInputs& in, Context& context) {
  SessionState& state = *state_;
  counted(state.counters, [&] {
    const CallRange range(state, "session.forward");
    require_place(state, "forward", context);
    OpenStep& step = step_of(state, "forward", id);
    const LayerConfig& layer = layer_to_run(state, step, index, true);
    const LayerPool& pool = state.pools[static_cast<std::size_t>(index)];
    for (const auto& [name, view] : {std::pair{"x", &in.x}, {"residual", &in.residual}, {"outer_residual", &in.outer_residual}}) {
      require_tokens(name, *view, step.tokens);
    }
    for (Part& part : step.parts) require_valid(state, short_conv_params(state, layer, pool, in, part));
    for (Part& part : step.parts) {
      run_op(state, context, short_conv, short_conv_params(state, layer, pool, in, part));
      writes(step, index);
    }
    layer_ran(step, index);
  });
}

}  // namespace recoverssm
