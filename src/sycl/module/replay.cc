#include "sycl/module/replay.h"

#include <algorithm>

#include "sycl/kernels/replay.h"
#include "sycl/module/delta.h"
#include "sycl/module/layers.h"

namespace recoverssm::sycl_backend {
namespace {

// What the layers of one launch have in common. Layers without a state, short convolutions, go with any.
struct Common {
  DeltaShape shape;
  Gate gate = Gate::gdn;

  bool operator==(const Common&) const = default;
};

Common common_of(const Layer& layer) { return {select_shape(layer.state.shape[3]), layer.gate}; }

// Calls f(common, belongs) for each launch: `belongs` says whether a layer is one of it. Layers without a state go with the first.
template <class F>
void for_each_launch(std::span<const Layer> layers, F&& f) {
  const auto first_state = std::find_if(layers.begin(), layers.end(), [](const Layer& layer) { return layer.state.present(); });
  if (first_state == layers.end()) return f(Common{}, [](const Layer&) { return true; });
  for (auto layer = first_state; layer != layers.end(); ++layer) {
    if (!layer->state.present()) continue;
    const Common common = common_of(*layer);
    const auto same = [&](const Layer& other) { return other.state.present() && common_of(other) == common; };
    if (std::any_of(first_state, layer, same)) continue;  // launched already
    f(common, [&](const Layer& other) { return same(other) || (layer == first_state && !other.state.present()); });
  }
}

}  // namespace

std::size_t replay_bytes(std::size_t layers, std::size_t groups) {
  return layers * sizeof(device::LayerArgs) + groups * sizeof(device::PlanColumns);
}

void prepare_replay(std::span<const Layer> layers, ::sycl::queue& queue) {
  prepare_table(queue);
  for_each_launch(layers, [&](const Common& common, const auto&) {
    kernel_of(queue, delta_program(common.shape, common.gate, traits_of(queue)), "replay");
  });
  if (std::any_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.pending.present(); })) {
    kernel_of(queue, kPendingProgram, "clear_replayed");
  }
}

void launch_replay(std::span<const Layer> layers, const ReplayCall& call, ::sycl::queue& queue) {
  if (call.args.rows == 0) return;
  const DeviceTraits traits = traits_of(queue);
  device::LayerArgs* table = call.table;  // of the launch
  for_each_launch(layers, [&](const Common& common, const auto& belongs) {
    ReplayLaunch args;
    args.replay = call.args;
    args.replay.layers = table;
    std::int64_t count = 0, heads = 0, most_V = 1;
    bool lazy = false;
    for (const Layer& layer : layers) {
      if (!belongs(layer)) continue;
      ++count;
      lazy = lazy || layer.pending.present();
      if (!layer.state.present()) continue;
      heads += layer.state.shape[1];
      most_V = std::max(most_V, layer.state.shape[2]);
    }
    args.cut = cut_of(common.shape, common.gate, heads * call.args.rows, most_V, call.tokens, /*together=*/false, traits);

    device::LayerArgs piece[kLayersAtOnce];
    std::size_t in_piece = 0;
    std::int64_t tasks = 0;
    const auto flush = [&] {
      write_table(queue, table, piece, in_piece * sizeof(device::LayerArgs));
      table += in_piece;
      in_piece = 0;
    };
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (!belongs(layers[l])) continue;
      piece[in_piece] = layer_args(layers[l], static_cast<std::int64_t>(l));
      if (call.args.of == device::ReplayOf::materialize) piece[in_piece].group = 0;  // one list for all
      tasks = std::max(tasks, tasks_of(piece[in_piece], args.cut));
      if (++in_piece == kLayersAtOnce) flush();
    }
    flush();
    if (tasks > 0) {
      launch_delta(queue, delta_program(common.shape, common.gate, traits), "replay", count, call.args.rows, tasks, args.cut,
                   traits, args);
    }
    if (lazy) {
      launch_kernel(queue, kernel_of(queue, kPendingProgram, "clear_replayed"),
                    range_of(1, count, ceil_div(call.args.rows, kPendingItems), kPendingItems), args.replay);
    }
  });
}

}  // namespace recoverssm::sycl_backend
