// The delta rule by warps that work alone: gated_delta_rule_verify of few heads and few tokens, gated_delta_rule of about a token a row. A warp takes
// some value rows of a head and meets no other warp. It prepares its tokens in registers, all lane groups alike: where a call is little more
// than latency, or memory's alone, working a thing out again is quicker than hearing it from another warp, over shared memory and a barrier.
#pragma once

#include "cuda/records.cuh"

namespace recoverssm::cuda {

struct FewArgs {
  RuleArgs rule;
  RowsArgs rows;
  View state, out;
  RecordArgs records;
  FewCut cut;
};

// Gates of this many tokens are worked out at a time, one a lane: gdn's decays in the first lanes, beta in the others.
constexpr int kGateTokens = 16;

// An element as it lies in memory: what is asked for early is widened late.
__device__ __forceinline__ std::uint32_t load_raw(const std::byte* p, DType dtype) {
  if (dtype == DType::f32) return *reinterpret_cast<const std::uint32_t*>(p);
  return *reinterpret_cast<const std::uint16_t*>(p);
}
__device__ __forceinline__ float widen_raw(std::uint32_t bits, DType dtype) {
  if (dtype == DType::f32) return __uint_as_float(bits);
  if (dtype == DType::bf16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)));
}
__device__ __forceinline__ float4 widen_key(float4 x) { return x; }
__device__ __forceinline__ float4 widen_key(uint2 bits) { return load4(reinterpret_cast<const __nv_bfloat16*>(&bits)); }

// kda: a key channel's decay is worked out by one lane group and handed to the others. Group g has the chunks g, g + 4.
template <int CHUNKS, bool KDA>
constexpr int kDecayChunks = !KDA                      ? 0
                             : CHUNKS < kGroupsPerWarp ? 1
                                                       : CHUNKS / kGroupsPerWarp;
__device__ __forceinline__ int decay_channel(int i, const Lane& lane) {
  return 32 * (lane.group + kGroupsPerWarp * (i / 4)) + 4 * lane.in_row + i % 4;
}

// A lane's share of a token that was asked for.
template <int CHUNKS, bool KDA, Form F>
struct AskedToken {
  std::conditional_t<F == Form::bf16, uint2, float4> k[CHUNKS], q[CHUNKS];
  std::uint32_t v;
  std::uint32_t raw_gate[4 * kDecayChunks<CHUNKS, KDA> + 1];  // kda's
};

// Grid: x blocks of cut.warps warps, each warp a tile of a head, ROWS value rows a lane group; z rows. Right for rows of any length; warps_alone
// hands it short ones, decodes_alone rows that are short on the average. VERIFY: it leaves records instead of a state.
template <class State, int CHUNKS, int ROWS, bool WHOLE, bool KDA, bool VERIFY, Form F>
__global__ void __launch_bounds__(32 * kMaxWarps) few_kernel(const __grid_constant__ FewArgs args) {
  constexpr int kDecays = 4 * kDecayChunks<CHUNKS, KDA>;
  const std::int64_t i = blockIdx.z;
  const RuleArgs& rule = args.rule;
  const int K = WHOLE ? 32 * CHUNKS : rule.K, V = rule.V;
  const Lane lane = lane_of_thread();
  const int in_warp = static_cast<int>(threadIdx.x) % 32;
  const int unit = static_cast<int>(blockIdx.x) * (static_cast<int>(blockDim.x) / 32) + lane.warp;
  const bool idle = unit >= rule.HV * args.cut.tiles;
  const int head = idle ? 0 : unit / args.cut.tiles, tile_of_head = unit % args.cut.tiles;
  const int from_head = key_head(head, rule.H, rule.HV);
  const int group_row = (tile_of_head * kGroupsPerWarp + lane.group) * ROWS;
  const int my_row = group_row + row_of_lane<ROWS>(lane.in_row);  // the one whose sums this lane ends up with
  const DType dtype = dtype_of<F>(rule.k);
  const int size = static_cast<int>(size_of(dtype));
  const bool of_decay = in_warp < kGateTokens, odd = lane.in_row & 1;

  // Where this lane's share of local token 0 and of block 0 lies, and how far it is to the next.
  RowSource row_source = cuda::row_source(args.rows, i);
  const int first_key = F == Form::bf16 ? 4 * lane.in_row * size : 0;  // load_key finds a lane's own
  const std::byte* key = at(rule.k, 0, from_head) + first_key;
  const std::byte* query = at(rule.q, 0, from_head) + first_key;
  const std::byte* value = at(rule.v, 0, head) + (my_row < V ? my_row : 0) * size;
  const View& gates = KDA ? rule.b : of_decay ? rule.a : rule.b;
  const std::byte* gate = at(gates, 0, head);
  const std::byte* raw_gate = at(rule.a, 0, head);
  std::int64_t key_step = rule.k.stride[0] * size, query_step = rule.q.stride[0] * size, value_step = rule.v.stride[0] * size;
  std::int64_t gate_step = gates.stride[0] * size, raw_gate_step = rule.a.stride[0] * size;
  State* state = reinterpret_cast<State*>(at(args.state, 0, head));
  const View& floats = KDA ? args.records.corrections : args.records.packed;
  float* record = reinterpret_cast<float*>(at(floats, 0, head));
  std::byte* out = at(args.out, 0, head, my_row);
  std::int64_t state_step = args.state.stride[0], block_step = floats.stride[0], out_step = args.out.stride[0] << args.out.shift;
  const std::byte* A_log_at = at(rule.gate.A_log, head);
  const std::byte* dt_bias_at = at(rule.gate.dt_bias, head);
  settle(key);
  settle(query);
  settle(value);
  settle(gate);
  settle(state);
  settle(out);
  settle(record);
  settle(A_log_at);
  settle(dt_bias_at);
  settle(row_source);
  settle(key_step, query_step, value_step, gate_step, state_step, block_step, out_step);
  let_next_start();
  after_previous();

  // Asked for beside the row, not after it.
  const std::uint32_t raw_A_log = load_raw(A_log_at, rule.gate.A_log.dtype);
  std::uint32_t raw_bias[kDecays + 1];
  if constexpr (!KDA) raw_bias[0] = load_raw(dt_bias_at, rule.gate.dt_bias.dtype);
#pragma unroll
  for (int d = 0; d < kDecays; ++d) {
    const int channel = decay_channel(d, lane);
    raw_bias[d] = channel < K ? load_raw(at(rule.gate.dt_bias, head, channel), rule.gate.dt_bias.dtype) : 0;
  }
  // As the block, read beside the offsets; used only of a live row.
  const bool from_block = VERIFY || starts_from_block(args.rows, i);
  DeviceRow row = row_of(row_source);
  if (F == Form::any) drop_bad_tokens(args.rows, row);
  report_row(args.rows, row, i);
  if (row.kind == DeviceRowKind::skip || idle) return;
  const int length = static_cast<int>(row.length);
  // Of the lanes that end with a row's sums one even lane has the key's and one odd lane the query's.
  const bool speaks = my_row < V && lane_speaks<ROWS>(lane.in_row);
  if (row.kind == DeviceRowKind::null) {
    for (int t = 0; t < length && speaks && odd; ++t) {
      clear_element(at(args.out, global_row(args.rows, row.begin + t), head, my_row), static_cast<int>(size_of(args.out.dtype)));
    }
    return;
  }

  key += row.begin * key_step;
  query += row.begin * query_step;
  value += row.begin * value_step;
  gate += row.begin * gate_step;
  if (KDA) raw_gate += row.begin * raw_gate_step;
  const auto ask = [&] {
    AskedToken<CHUNKS, KDA, F> token;
    if constexpr (F == Form::bf16) {
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) {
        token.k[j] = *reinterpret_cast<const uint2*>(key + 64 * j);
        token.q[j] = *reinterpret_cast<const uint2*>(query + 64 * j);
      }
    } else {
      load_key<CHUNKS, WHOLE>(token.k, key, dtype, rule.vector_keys, K, lane.in_row);
      load_key<CHUNKS, WHOLE>(token.q, query, dtype, rule.vector_keys, K, lane.in_row);
    }
    token.v = load_raw(value, dtype);
#pragma unroll
    for (int d = 0; d < kDecays; ++d) {
      const int channel = decay_channel(d, lane);
      token.raw_gate[d] = channel < K ? load_raw(raw_gate + channel * size, dtype) : 0;
    }
    return token;
  };
  const auto ask_gates = [&](int first) {
    const int t = first + in_warp % kGateTokens;
    return t < length ? load_raw(gate + t * gate_step, dtype) : 0;
  };
  Tile<CHUNKS, ROWS> tile;
  const auto load_state = [&] {
    if (VERIFY || from_block) {
      load_tile<CHUNKS, ROWS, WHOLE>(tile, state + row.block * state_step, group_row, V, K, lane.in_row);
    } else {
      clear_tile(tile);
    }
  };
  // Tokens first, whose chain is the longer one; but what is widened as it comes would be waited for.
  if constexpr (F == Form::any) load_state();
  std::uint32_t raw_gates = ask_gates(0);
  AskedToken<CHUNKS, KDA, F> asked = ask();
  if constexpr (F != Form::any) load_state();

  record += row.block * block_step;
  const std::int64_t record_step = floats.stride[2];
  int until_mine = tile_of_head;  // tokens until this warp writes a key: the head's warps take turns
  out += row.begin * out_step;

  const float exp_A_log = arithmetic::exp_f32(widen_raw(raw_A_log, rule.gate.A_log.dtype));
  float bias[kDecays + 1];
#pragma unroll
  for (int d = 0; d < kDecays + !KDA; ++d) bias[d] = widen_raw(raw_bias[d], rule.gate.dt_bias.dtype);
  const auto gates_of = [&](std::uint32_t bits) {
    const float x = widen_raw(bits, dtype), beta = arithmetic::sigmoid(x);
    if constexpr (KDA) return beta;
    const float decay = arithmetic::kda_decay(x + bias[0], exp_A_log, rule.gate.softplus_beta, rule.gate.softplus_threshold);
    return of_decay ? decay : beta;
  };
  float lane_gate = gates_of(raw_gates);
#pragma unroll 1
  for (int t = 0; t < length; ++t) {
    const int in_chunk = t % kGateTokens;
    if (in_chunk == 0 && t > 0) lane_gate = gates_of(ask_gates(t));
    float4 k[CHUNKS], q[CHUNKS];
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) {
      k[j] = widen_key(asked.k[j]);
      q[j] = widen_key(asked.q[j]);
    }
    const float v = widen_raw(asked.v, dtype);
    float channel_decay[kDecays + 1];
    if constexpr (KDA) {
      with_kda_decay(rule.gate, exp_A_log, [&](auto decay_of) {
#pragma unroll
        for (int d = 0; d < kDecays; ++d) channel_decay[d] = decay_of(widen_raw(asked.raw_gate[d], dtype) + bias[d]);
      });
    }
    if (t + 1 < length) {
      key += key_step;
      query += query_step;
      value += value_step;
      if (KDA) raw_gate += raw_gate_step;
      asked = ask();
    }

    const auto dot = [&](const float4(&x)[CHUNKS], const float4(&y)[CHUNKS]) {
      return quad(partial_sums<CHUNKS, WHOLE>(x, y, K, lane.in_row));
    };
    float query_scale = rule.scale;
    if (rule.gate.l2norm) {
      const float squares[2] = {dot(k, k), dot(q, q)};
      const float inverse = arithmetic::inverse_norm(scatter_sums<1>(squares, lane.in_row));
      const float other = __shfl_xor_sync(~0u, inverse, 1);
      scale_key(k, odd ? other : inverse);
      if constexpr (KDA) {
        query_scale = (odd ? inverse : other) * query_scale;
      } else {
        scale_key(q, odd ? inverse : other);
      }
    }
    scale_key(q, query_scale);

    const float decay = __shfl_sync(~0u, lane_gate, in_chunk), beta = __shfl_sync(~0u, lane_gate, kGateTokens + in_chunk);
    float4 d[CHUNKS];
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) {
      d[j] = {decay, decay, decay, decay};
      if constexpr (KDA) {
        const float* const of = channel_decay + j / kGroupsPerWarp * 4;
        const int from = j % kGroupsPerWarp * kLanesPerRow + lane.in_row;
        d[j] = {__shfl_sync(~0u, of[0], from), __shfl_sync(~0u, of[1], from), __shfl_sync(~0u, of[2], from),
                __shfl_sync(~0u, of[3], from)};
      }
    }
    float sums[2 * ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) {
        float4& h = tile.h[r][j];
        h = {h.x * d[j].x, h.y * d[j].y, h.z * d[j].z, h.w * d[j].w};
      }
      sums[r] = dot(tile.h[r], k);
      sums[ROWS + r] = dot(tile.h[r], q);
    }
    const float key_dot_query = sum_of_group(dot(k, q), lane.group_mask);
    const float sum = scatter_sums<ROWS>(sums, lane.in_row);
    const float correction = __shfl_sync(~0u, (v - sum) * beta, in_warp & ~1);  // odd lanes: of their neighbour
    const float result = __fmaf_rn(correction, key_dot_query, sum);
    if (F == Form::any && args.rows.token_index.present) out = at(args.out, global_row(args.rows, row.begin + t), head, my_row);
    if (speaks && odd) store_float(out, dtype_of<F>(args.out), result);
    if (VERIFY && speaks && !odd) record[my_row] = correction;
    if (VERIFY && until_mine == 0) {
      if constexpr (KDA) {
        copy_key_and_gate(rule, args.records, row, head, from_head, t, in_warp, 32);
      } else {
        // A lane group has the whole key: each stores one of four neighbours.
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
          const int e = 32 * j + 4 * lane.in_row + lane.group;
          const float x = lane.group & 2 ? (lane.group & 1 ? k[j].w : k[j].z) : (lane.group & 1 ? k[j].y : k[j].x);
          if (WHOLE || e < K) record[V + e] = x;
        }
        if (in_warp == 0) record[V + K] = decay;
      }
      until_mine = args.cut.tiles;
    }
    if (VERIFY && t + 1 == length) break;
    --until_mine;
    out += out_step;
    record += record_step;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float c = __shfl_sync(~0u, correction, lane_of_row<ROWS>(r), kLanesPerRow);
#pragma unroll
      for (int j = 0; j < CHUNKS; ++j) add_rank_one(tile.h[r][j], c, k[j]);
    }
  }
  if constexpr (!VERIFY) store_tile<CHUNKS, ROWS, WHOLE>(tile, state + row.block * state_step, group_row, V, K, lane.in_row);
}

// Which of verify's kernels there are in both forms.
template <int CHUNKS, bool WHOLE>
constexpr bool kFewBothForms = CHUNKS == 4 && WHOLE;

}  // namespace recoverssm::cuda
