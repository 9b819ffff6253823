// What tests run: the calls of a step, on whichever side of a scene.
#pragma once

#include <string>
#include <vector>

#include "device/twin.h"

namespace device_test {

// The calls, by themselves. Layers of commit and materialize are all layers of the scene.
recoverssm::SplitProjectionsParams split(const Scene& scene, const Side& side, std::size_t layer);
recoverssm::CausalConv1dWindowParams conv_window(const Scene& scene, const Side& side, std::size_t layer);
recoverssm::CausalConv1dParams conv_plain(const Scene& scene, const Side& side, std::size_t layer);
recoverssm::GatedDeltaRuleParams rule(const Scene& scene, const Side& side, std::size_t layer);
recoverssm::GatedDeltaRuleSnapshotsParams snapshots(const Scene& scene, const Side& side, std::size_t layer);
recoverssm::GatedDeltaRuleVerifyParams verify(const Scene& scene, const Side& side, std::size_t layer);
recoverssm::ShortConvParams short_conv(const Scene& scene, const Side& side, std::size_t layer, bool windows);
recoverssm::CommitPlanParams plan(const Scene& scene, const Side& side);
recoverssm::AlignAdvanceParams advance(const Scene& scene, const Side& side);
// parts: "w", and one of "p" and "d", whose plain rows have no token_index.
recoverssm::GdnAttentionParams attention(const Scene& scene, const Side& side, std::size_t layer, const std::string& parts,
                                         recoverssm::WindowMode mode);

// Calls with lists: alive while what params() gives is used.
struct CommitCall {
  std::vector<recoverssm::Layer> layers;
  std::vector<recoverssm::CommitGroup> groups;
  int S = 0;
  recoverssm::CommitParams params() const { return {.groups = groups, .layers = layers, .window_capacity = S}; }
};
CommitCall commit(const Scene& scene, const Side& side);

struct ListCall {  // materialize, align_move
  std::vector<recoverssm::Layer> layers;
  TensorView first, second;
  recoverssm::MaterializeParams materialize() const { return {.blocks = first, .num_accepted = second, .layers = layers}; }
  recoverssm::AlignMoveParams move() const { return {.from = first, .to = second, .layers = layers}; }
};
ListCall materialize(const Scene& scene, const Side& side);
ListCall align_move(const Scene& scene, const Side& side);

// A program and the scene it is for.
struct Named {
  std::string name;
  SceneShape shape;
  std::function<Program(const Scene&)> make;
  bool forward = false;  // what an engine captures for a batch of a fixed size, padding and all
};

// Steps: [conv + verify] of every layer, plan, commit, advance; lazy conv + verify; gdn_attention in its forms; every other operation.
Program eager_step(const Scene& scene);
Program lazy_step(const Scene& scene);
Program pending_commit(const Scene& scene);  // lazy_step, then plan and commit with pending
Program attention_step(const Scene& scene, const std::string& parts, recoverssm::WindowMode mode);
Program other_operations(const Scene& scene);
std::vector<Named> all_programs();

}  // namespace device_test
