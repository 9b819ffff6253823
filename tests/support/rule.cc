#include "support/rule.h"

#include <cmath>
#include <sstream>

#include "support/convert.h"

namespace support {

std::string RuleShape::text() const {
  std::ostringstream text;
  text << (kda() ? "kda" : "gdn") << " H " << H << " HV " << HV << " K " << K << " V " << V << " T " << name_of(T) << " state "
       << name_of(state) << " out " << name_of(out) << " A_log " << name_of(A_log) << " dt_bias " << name_of(dt_bias) << " l2norm "
       << l2norm;
  if (lower_bound) text << " lower_bound " << *lower_bound;
  if (scale) text << " scale " << *scale;
  text << " softplus " << softplus_beta << "," << softplus_threshold;
  return text.str();
}

RuleShape random_rule_shape(Pick& pick) {
  RuleShape shape;
  shape.gate = pick.one_of({Gate::gdn, Gate::kda});
  shape.H = pick.between(1, 2);
  shape.HV = shape.H * pick.between(1, 3);
  shape.K = pick.chance(50) ? pick.one_of({8, 1, 20, 31, 32, 33, 48, 64, 100, 128, 130, 255, 256}) : pick.between(1, 70);
  shape.V = pick.chance(40) ? pick.one_of({4, 1, 7, 16, 17, 33, 40}) : pick.between(1, 20);
  shape.T = pick.one_of({DType::f32, DType::bf16, DType::f16});
  shape.state = pick.one_of({DType::f32, DType::bf16, DType::f16});
  shape.out = pick.one_of({DType::f32, shape.T});
  shape.A_log = pick.one_of({DType::f32, shape.T});
  shape.dt_bias = pick.one_of({DType::f32, shape.T});
  shape.l2norm = !pick.chance(25);
  if (shape.kda() && pick.chance(40)) shape.lower_bound = pick.one_of({-5.0F, -0.5F});
  if (pick.chance(30)) shape.scale = pick.one_of({1.0F, 0.3F});
  if (pick.chance(20)) shape.softplus_beta = pick.one_of({2.0F, 0.7F});
  if (pick.chance(20)) shape.softplus_threshold = 1.0F;
  return shape;
}

RuleWeights random_weights(Pick& pick, const RuleShape& shape) {
  RuleWeights weights;
  weights.A_log = strided(pick, shape.A_log, {shape.HV}, 0);
  weights.dt_bias =
      shape.kda() ? strided(pick, shape.dt_bias, {shape.HV, shape.K}, 1) : strided(pick, shape.dt_bias, {shape.HV}, 0);
  for_each(weights.A_log, [&](const Index& i) { weights.A_log.set_at(pick.uniform(-4.0, 2.0), i); });
  for_each(weights.dt_bias, [&](const Index& i) { weights.dt_bias.set_at(pick.uniform(-5.0, 1.0), i); });
  return weights;
}

namespace {

RuleTokens empty_tokens(Pick& pick, const RuleShape& shape, int count) {
  RuleTokens tokens;
  tokens.count = count;
  const Part head{shape.T, {shape.H, shape.K}, 1};
  const std::vector<Tensor> qkv = strided_or_interleaved(pick, count, {head, head, {shape.T, {shape.HV, shape.V}, 1}});
  tokens.q = qkv[0];
  tokens.k = qkv[1];
  tokens.v = qkv[2];
  const Part gate = shape.kda() ? Part{shape.T, {shape.HV, shape.K}, 1} : Part{shape.T, {shape.HV}, 1};
  const std::vector<Tensor> gates = strided_or_interleaved(pick, count, {gate, {shape.T, {shape.HV}, 1}});
  tokens.a = gates[0];
  tokens.b = gates[1];
  return tokens;
}

}  // namespace

RuleTokens random_tokens(Pick& pick, const RuleShape& shape, int count) {
  const RuleTokens tokens = empty_tokens(pick, shape, count);
  // Without normalisation a key longer than sqrt(2) makes the rule itself unstable; length about 1/2 keeps it a contraction.
  const double size = shape.l2norm ? 1.0 : 0.5 / std::sqrt(shape.K);
  for_each(tokens.q, [&](const Index& i) { tokens.q.set_at(pick.normal() * size, i); });
  for_each(tokens.k, [&](const Index& i) { tokens.k.set_at(pick.normal() * size, i); });
  for_each(tokens.v, [&](const Index& i) { tokens.v.set_at(pick.normal(), i); });
  for_each(tokens.a, [&](const Index& i) { tokens.a.set_at(pick.normal() * 2, i); });
  for_each(tokens.b, [&](const Index& i) { tokens.b.set_at(pick.normal() * 2, i); });
  return tokens;
}

RuleTokens gather(Pick& pick, const RuleShape& shape, const RuleTokens& tokens, const std::vector<int>& which, int first,
                  int count) {
  const RuleTokens result = empty_tokens(pick, shape, count);
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::int64_t to = first + static_cast<std::int64_t>(i);
    copy_bits(slice(tokens.q, 0, which[i]), slice(result.q, 0, to));
    copy_bits(slice(tokens.k, 0, which[i]), slice(result.k, 0, to));
    copy_bits(slice(tokens.v, 0, which[i]), slice(result.v, 0, to));
    copy_bits(slice(tokens.a, 0, which[i]), slice(result.a, 0, to));
    copy_bits(slice(tokens.b, 0, which[i]), slice(result.b, 0, to));
  }
  return result;
}

std::vector<Untouched::Watch> RulePool::watches() const {
  return {{"state", state},
          {"records.packed", packed},
          {"records.corrections", corrections},
          {"records.key_gate", key_gate},
          {"pending", pending}};
}

std::vector<TensorView> RulePool::record_slices(int block, int first, int last) const {
  std::vector<TensorView> slices;
  for (const Tensor* part : {&packed, &corrections, &key_gate}) {
    if (part->present()) slices.push_back(slice(slice(*part, 0, block), 2, first, last));
  }
  return slices;
}

namespace {

RulePool empty_pool(Pick& pick, int blocks, int capacity, const std::vector<Part>& parts, bool kda) {
  RulePool pool;
  pool.blocks = blocks;
  pool.capacity = capacity;
  const std::vector<Tensor> tensors = strided_or_interleaved(pick, blocks, parts);
  pool.state = tensors[0];
  if (capacity > 0 && kda) {
    pool.corrections = tensors[1];
    pool.key_gate = tensors[2];
  } else if (capacity > 0) {
    pool.packed = tensors[1];
  }
  pool.pending = strided(pick, DType::i32, {blocks}, 0);
  pool.pending.fill(0);
  return pool;
}

}  // namespace

RulePool random_pool(Pick& pick, const RuleShape& shape, int blocks, int capacity) {
  std::vector<Part> parts = {{shape.state, {shape.HV, shape.V, shape.K}, 3}};
  if (capacity > 0 && shape.kda()) {
    parts.push_back({DType::f32, {shape.HV, capacity, shape.V}, 1});
    parts.push_back({shape.T, {shape.HV, capacity, 2 * shape.K}, 1});
  } else if (capacity > 0) {
    parts.push_back({DType::f32, {shape.HV, capacity, shape.V + shape.K + 1}, 1});
  }
  const RulePool pool = empty_pool(pick, blocks, capacity, parts, shape.kda());
  const double size = 1.0 / std::sqrt(shape.K);  // rows of length about 1
  for_each(pool.state, [&](const Index& i) { pool.state.set_at(pick.normal() * size, i); });
  return pool;
}

RulePool another_pool(Pick& pick, const RulePool& pool) {
  std::vector<Part> parts;
  std::vector<const Tensor*> sources;
  for (const Tensor* part : {&pool.state, &pool.packed, &pool.corrections, &pool.key_gate}) {
    if (!part->present()) continue;
    const Shape shape(part->view.shape.begin() + 1, part->view.shape.begin() + 4);
    parts.push_back({part->dtype(), shape, part == &pool.state ? 3 : 1});
    sources.push_back(part);
  }
  const RulePool copy = empty_pool(pick, pool.blocks, pool.capacity, parts, pool.corrections.present());
  const Tensor* targets[] = {&copy.state, &copy.packed, &copy.corrections, &copy.key_gate};
  std::size_t next = 0;
  for (const Tensor* target : targets) {
    if (target->present()) copy_bits(*sources[next++], *target);
  }
  copy_bits(pool.pending, copy.pending);
  return copy;
}

void copy_block(const RulePool& from, int from_block, const RulePool& to, int to_block) {
  const auto copy = [&](const Tensor& source, const Tensor& target) {
    if (source.present()) copy_bits(slice(source, 0, from_block), slice(target, 0, to_block));
  };
  copy(from.state, to.state);
  copy(from.packed, to.packed);
  copy(from.corrections, to.corrections);
  copy(from.key_gate, to.key_gate);
  copy(from.pending, to.pending);
}

Tensor random_out(Pick& pick, const RuleShape& shape, int rows) {
  return strided(pick, shape.out, {rows, shape.HV, shape.V}, pick.between(1, 2));
}

recoverssm::RuleInputs inputs_of(const RuleShape& shape, const RuleWeights& weights, const RuleTokens& tokens) {
  recoverssm::RuleInputs inputs;
  inputs.gate = shape.gate;
  inputs.q = tokens.q;
  inputs.k = tokens.k;
  inputs.v = tokens.v;
  inputs.a = tokens.a;
  inputs.b = tokens.b;
  inputs.A_log = weights.A_log;
  inputs.dt_bias = weights.dt_bias;
  inputs.lower_bound = shape.lower_bound;
  inputs.scale = shape.scale;
  inputs.l2norm = shape.l2norm;
  inputs.softplus_beta = shape.softplus_beta;
  inputs.softplus_threshold = shape.softplus_threshold;
  return inputs;
}

recoverssm::Layer layer_of(const RuleShape& shape, const RuleWeights& weights, const RulePool& pool, bool with_pending) {
  recoverssm::Layer layer;
  layer.state = pool.state;
  layer.records = pool.records();
  if (with_pending) layer.pending = pool.pending;
  layer.gate = shape.gate;
  if (shape.kda()) {
    layer.A_log = weights.A_log;
    layer.dt_bias = weights.dt_bias;
  }
  layer.lower_bound = shape.lower_bound;
  layer.l2norm = shape.l2norm;
  layer.softplus_beta = shape.softplus_beta;
  layer.softplus_threshold = shape.softplus_threshold;
  return layer;
}

reference::Head head_of(const RuleShape& shape, const RuleWeights& weights, int head) {
  reference::Head result;
  result.per_channel = shape.kda();
  result.A_log = weights.A_log.get(head);
  for (int i = 0; i < (shape.kda() ? shape.K : 1); ++i) {
    result.dt_bias.push_back(shape.kda() ? weights.dt_bias.get(head, i) : weights.dt_bias.get(head));
  }
  if (shape.lower_bound) result.lower_bound = static_cast<double>(*shape.lower_bound);
  result.normalise = shape.l2norm;
  result.scale = shape.scale ? static_cast<double>(*shape.scale) : 1.0 / std::sqrt(static_cast<double>(shape.K));
  result.softplus_beta = static_cast<double>(shape.softplus_beta);
  result.softplus_threshold = static_cast<double>(shape.softplus_threshold);
  return result;
}

reference::Token token_of(const RuleShape& shape, const RuleTokens& tokens, int token, int head) {
  reference::Token result;
  const int key_head = head / (shape.HV / shape.H);
  for (int i = 0; i < shape.K; ++i) {
    result.q.push_back(tokens.q.get(token, key_head, i));
    result.k.push_back(tokens.k.get(token, key_head, i));
    if (shape.kda()) result.gate.push_back(tokens.a.get(token, head, i));
  }
  for (int i = 0; i < shape.V; ++i) result.v.push_back(tokens.v.get(token, head, i));
  if (!shape.kda()) result.gate.push_back(tokens.a.get(token, head));
  result.b = tokens.b.get(token, head);
  return result;
}

reference::Matrix matrix_of(const Tensor& state, int block, int head) {
  reference::Matrix matrix(static_cast<int>(state.view.shape[2]), static_cast<int>(state.view.shape[3]));
  for (int r = 0; r < matrix.rows; ++r) {
    for (int c = 0; c < matrix.columns; ++c) matrix.at(r, c) = state.get(block, head, r, c);
  }
  return matrix;
}

::testing::AssertionResult near(double got, double expected, DType stored, Tolerance tolerance) {
  const double allowed = tolerance.absolute + tolerance.relative * std::fabs(expected) + 0.5 * ulp(stored, expected);
  if (std::fabs(got - expected) <= allowed) return ::testing::AssertionSuccess();
  std::ostringstream text;
  text.precision(10);
  text << "got " << got << ", expected " << expected << " +- " << allowed;
  return ::testing::AssertionFailure() << text.str();
}

}  // namespace support
