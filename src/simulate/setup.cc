#include "simulate/setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "recoverssm/info.hpp"

namespace recoverssm::simulate {

namespace {

bool chance(Random& random, int percent) { return random.between(0, 99) < percent; }

LayerRanges layer_ranges(Random& random, const Options& options) {
  constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};
  const DType T = kFloats[random.between(0, 2)];
  LayerRanges ranges;
  // One activation dtype a model, as models have it; now and then one a layer.
  ranges.activations = chance(random, 85) ? std::vector{T} : std::vector{DType::f32, DType::bf16, DType::f16};
  ranges.states = {DType::f32};
  if (chance(random, 40)) ranges.states = {DType::f32, DType::bf16, DType::f16};
  if (options.activation) ranges.activations = {*options.activation};
  if (options.state) ranges.states = {*options.state};
  return ranges;
}

void random_groups(Random& random, const Options& options, Setup& setup) {
  SessionConfig& s = setup.session;
  const std::int32_t layers = options.layers.value_or(random.between(1, 4));
  const std::int32_t groups = std::min(options.groups.value_or(random.between(1, 3)), layers);
  const LayerRanges ranges = layer_ranges(random, options);
  for (std::int32_t l = 0; l < layers; ++l) {
    // The first layers give every group one.
    setup.layers.push_back(random_layer(random, ranges, l < groups ? l : random.between(0, groups - 1)));
  }
  const bool align = options.align.value_or(chance(random, 50)), same_size = chance(random, 50);
  const std::int32_t size = s.window_capacity + random.between(0, 9);
  for (std::int32_t g = 0; g < groups; ++g) {
    GroupConfig group;
    if (align) group.block_size = same_size ? size : s.window_capacity + random.between(0, 9);
    // From "some requests wait for blocks" to "plenty".
    const std::int32_t each = align ? 2 + s.kept_boundaries : 1;
    group.blocks = s.null_block_id + 1 + each + random.between(setup.concurrency / 2, setup.concurrency * each);
    s.groups.push_back(group);
  }
}

}  // namespace

Setup random_setup(const Options& options, std::uint64_t seed) {
  Random random(mix(seed, 0x5e7));
  Setup setup;
  setup.seed = seed;
  setup.faults = options.faults;
  setup.backend = options.backend;
  SessionConfig& s = setup.session;
  s.window_capacity = options.window.value_or(random.between(1, 6));
  s.line_kind = options.line.value_or(chance(random, 50) ? LineKind::anchored : LineKind::rolled);
  s.lazy = options.lazy.value_or(chance(random, 50));
  s.null_block_id = chance(random, 70) ? 0 : random.between(-1, 2);
  s.kept_boundaries = random.between(0, 3);
  setup.concurrency = options.concurrency.value_or(random.between(1, 8));
  setup.depth = options.depth.value_or(chance(random, 40) ? 1 : random.between(2, 4));
  setup.steps = options.steps.value_or(random.between(60, 240));
  setup.longest_prompt = chance(random, 30) ? random.between(1, 4) : random.between(5, 60);
  setup.longest_text = setup.longest_prompt + random.between(1, 160);
  setup.acceptance = random.between(20, 95);
  setup.float64_share = 10;
  setup.given_pools = chance(random, 60);
  setup.threads = options.threads.value_or(chance(random, 75) ? 1 : 2);
  // All targets give the same bits: the plain run on another one than the session says so.
  setup.plain_target = chance(random, 50) ? Target::best : Target::portable;
  random_groups(random, options, setup);
  for (const LayerModel& layer : setup.layers) s.layers.push_back(layer.config);
  return setup;
}

std::string text_of(const Setup& setup) {
  const SessionConfig& s = setup.session;
  std::string text = fmt::format("S {}, {}, {}", s.window_capacity, s.line_kind == LineKind::anchored ? "anchored" : "rolled",
                                 s.lazy ? "lazy" : "eager");
  if (setup.align()) text += fmt::format(", align keeping {}", s.kept_boundaries);
  for (const GroupConfig& group : s.groups) {
    text += fmt::format(", {} blocks", group.blocks);
    if (group.block_size) text += fmt::format(" of {}", *group.block_size);
  }
  text += fmt::format(", null id {}, {} requests, {} steps at once, {} thread{}, {} pools", s.null_block_id, setup.concurrency,
                      setup.depth, setup.threads, setup.threads == 1 ? "" : "s", setup.given_pools ? "given" : "own");
  for (const LayerModel& layer : setup.layers) text += "; " + text_of(layer);
  return text;
}

}  // namespace recoverssm::simulate
