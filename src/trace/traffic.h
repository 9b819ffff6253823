// What a trace's windows moved, and what the same windows would have moved with a state per token (snapshots).
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "recoverssm/recoverssm.hpp"
#include "trace/binding.h"

namespace recoverssm::trace {

// Bytes one request owns, all layers.
struct RequestMemory {
  std::int64_t records = 0;    // state, records and conv line: what this library keeps
  std::int64_t snapshots = 0;  // S states and conv line

  bool operator==(const RequestMemory&) const = default;
};

// Windows are those of gated_delta_rule_verify with tokens and a block. A session's layers see the same windows: steps, windows and
// tokens are counted on the layer that is verified first, bytes on all layers.
struct Traffic {
  std::int64_t layers = 0;
  std::int64_t steps = 0;      // verify calls of the first layer
  std::int64_t windows = 0;    // its windows
  std::int64_t tokens = 0;     // tokens verified in them
  std::int64_t accepted = 0;   // tokens folded into its states afterwards
  std::int64_t moved = 0;      // bytes: states and records in verify; states, records and conv lines in commit and materialize
  std::int64_t snapshots = 0;  // bytes of states that snapshots would have moved for the same windows
  Counters counters;           // every call, plain rows included
  std::optional<RequestMemory> memory;  // nothing without windows
};

Counters& operator+=(Counters& sum, const Counters& more);

// Follows a trace call by call.
class TrafficMeter {
 public:
  // `call` is bound to the contents from before it ran (what a lazy verify overwrites is needed here), `counted` what it added to the
  // launch's counters. Only for calls that succeeded: index contents are trusted.
  void add(const BoundCall& call, const Counters& counted);

  const Traffic& traffic() const { return traffic_; }

 private:
  void add_verify(const GatedDeltaRuleVerifyParams& params, const Counters& counted);
  void add_commit(const CommitParams& params, const Counters& counted);
  void add_materialize(const MaterializeParams& params, const Counters& counted);
  bool known(std::span<const Layer> layers) const;
  bool is_first(const TensorView& state) const { return state.data == first_layer_; }
  void measure_request(const GatedDeltaRuleVerifyParams& params);

  Traffic traffic_;
  const void* first_layer_ = nullptr;             // its states
  std::set<const void*> layers_;                  // states of all layers seen
  std::optional<CausalConv1dWindowParams> conv_;  // the last one before a verify: that layer's
};

}  // namespace recoverssm::trace
