// The arguments of gdn_attention (see forward.h). Its two parts are flattened: what belongs to the plain rows starts with plain_, what
// belongs to the windows with window_. A part is there if any of its arguments is. Where the plain rows name the windows' own records or
// pending, a flag says so: a compiled graph may hand over copies of what it sees written, and one tensor named twice would become two.
#pragma once

#include "api/words.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::torch_ops {

// Which of the arguments that an overload may leave out it writes.
struct AttentionWrites {
  const char* name;
  bool records = false;        // window_records
  bool pending = false;        // window_pending
  bool plain_pending = false;  // plain_pending
};

inline constexpr AttentionWrites kAttentionWrites[] = {
    {"gdn_attention"},
    {"gdn_attention.verify", true},
    {"gdn_attention.lazy", true, true},
    {"gdn_attention.plain_lazy", false, false, true},
    {"gdn_attention.plain_lazy_verify", true, false, true},
};

template <int overload>
struct GdnAttention {
  static constexpr AttentionWrites kWrites = kAttentionWrites[overload];
  static constexpr const char* kName = kWrites.name;
  GdnAttentionParams params;

  template <class A>
  void describe(A& a) {
    GdnAttentionParams& p = params;
    AttentionPlainPart plain;
    AttentionWindowPart windows;
    std::optional<std::int32_t> capacity;
    bool takes_records = false, takes_pending = false;
    windows.mode = kNoMode;
    a.read("qkvz", p.qkvz);
    a.read("ba", p.ba);
    a.read("weight", p.weight);
    a.read("A_log", p.A_log);
    a.read("dt_bias", p.dt_bias);
    a.write("line", p.line);
    a.write("state", p.state);
    a.write("out", p.out);
    a.write("z", p.z);
    if (kWrites.records) a.write("window_records", windows.records.packed);
    if (kWrites.pending) a.write("window_pending", windows.pending);
    if (kWrites.plain_pending) a.write("plain_pending", plain.pending);
    a.word("layout", kLayouts, p.layout);
    a.integer("num_k_heads", p.num_k_heads);
    a.integer("num_v_heads", p.num_v_heads);
    a.integer("head_k_dim", p.head_k_dim);
    a.integer("head_v_dim", p.head_v_dim);
    a.word("line_kind", kLineKinds, p.line_kind);
    a.maybe("bias", p.bias);
    a.optional_word("activation", kActivations, p.activation);
    a.optional_real("scale", p.scale);
    a.flag("l2norm", p.l2norm, true);
    a.real("softplus_beta", p.softplus_beta, 1);
    a.real("softplus_threshold", p.softplus_threshold, 20);
    a.maybe("plain_query_start_loc", plain.rows.query_start_loc);
    a.maybe("plain_state_indices", plain.rows.state_indices);
    a.maybe("plain_has_initial_state", plain.rows.has_initial_state);
    a.maybe("plain_num_accepted", plain.rows.num_accepted);
    a.maybe("plain_records", plain.records.packed);
    a.flag("plain_takes_records", takes_records, false);
    a.flag("plain_takes_pending", takes_pending, false);
    a.maybe("plain_token_index", plain.rows.token_index);
    a.optional_word("window_mode", kModes, windows.mode);
    a.maybe("window_query_start_loc", windows.rows.query_start_loc);
    a.maybe("window_state_indices", windows.rows.state_indices);
    a.maybe("window_num_accepted", windows.rows.num_accepted);
    a.optional_integer("window_capacity", capacity);
    a.maybe("window_token_index", windows.rows.token_index);
    a.integer("null_block_id", p.null_block_id, 0);

    if (takes_records) plain.records = windows.records;
    if (takes_pending) plain.pending = windows.pending;
    windows.rows.window_capacity = capacity.value_or(0);
    if (any(plain.rows) || plain.pending.present() || plain.records.present()) p.plain = plain;
    if (any(windows.rows) || windows.pending.present() || windows.records.present() || windows.mode != kNoMode || capacity) {
      p.windows = windows;
    }
  }

 private:
  static constexpr auto kNoMode = static_cast<WindowMode>(255);  // refused by the operation if there are windows

  static bool any(const Rows& rows) {
    return rows.query_start_loc.present() || rows.state_indices.present() || rows.has_initial_state.present() ||
           rows.num_accepted.present() || rows.token_index.present();
  }
};

}  // namespace recoverssm::torch_ops
