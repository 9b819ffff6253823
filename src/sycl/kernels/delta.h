// The gated delta rule in kernels: what rule, snapshots, verify and replay are made of.
//
// A sub-group works by itself on some value rows of a head of one row, four state rows at a time in registers (Tile): nothing but its own
// barriers, so that the CPU device can run it as one vectorised loop. Tokens are prepared once for all its rows, in its own piece of local
// memory: the normalised key and query, their dot, decay and beta.
#pragma once

#include "device/rows.h"
#include "device/rule.h"
#include "sycl/kernels/lanes.h"
#include "sycl/kernels/report.h"

namespace recoverssm::sycl_backend {

using namespace device;

// How a call's heads go over sub-groups.
struct DeltaCut {
  std::int32_t task_rows = kRows;  // value rows of a task, one sub-group's; a multiple of four
  std::int32_t tiles = 1;          // tasks a head
  std::int32_t token_chunk = 1;    // tokens prepared at once
  std::int32_t local_floats = 0;   // of a sub-group
};

// What a kernel is compiled for: sub-group size, sub-groups of a work-group, K in chunks of 32 (rounded up), whether K is 32 * CHUNKS, the
// gate.
template <int SG, int GROUPS, int CHUNKS, bool WHOLE, bool KDA>
struct Delta {
  static constexpr int kGroups = GROUPS;
  static constexpr int kSub = SG, kPadded = 32 * CHUNKS, kElements = kPadded / SG, kLeaves = 32 / SG;
  static constexpr bool kWhole = WHOLE, kKda = KDA;

  // A prepared token: k [kPadded] | q [kPadded] | decay [kPadded], kda only | decay (gdn), beta, k.q, -
  static constexpr int kQuery = kPadded, kDecays = 2 * kPadded, kDecay = (KDA ? 3 : 2) * kPadded, kBeta = kDecay + 1,
                       kKeyDotQuery = kDecay + 2, kTokenFloats = kDecay + 4;
};

template <class D>
struct Tile {
  float h[kRows][D::kElements];
};

template <class D>
using LanesOf = Lanes<D::kSub>;

// Element of a lane, and whether there is one.
template <class D>
RSSM_HOST_DEVICE int element(const LanesOf<D>& lanes, int e) {
  return D::kSub * e + lanes.lane;
}
template <class D>
RSSM_HOST_DEVICE bool inside(int element, int K) {
  return D::kWhole || element < K;
}

// ---- rows of K elements between memory and local memory, which every lane reads and writes at its own elements; zeros from K on

template <class D>
RSSM_HOST_DEVICE void write_key(const LanesOf<D>& lanes, float* to, const float (&x)[D::kElements]) {
  RSSM_UNROLL
  for (int e = 0; e < D::kElements; ++e) to[element<D>(lanes, e)] = x[e];
}

template <class D>
RSSM_HOST_DEVICE void read_key(const LanesOf<D>& lanes, float (&x)[D::kElements], const float* from) {
  RSSM_UNROLL
  for (int e = 0; e < D::kElements; ++e) x[e] = from[element<D>(lanes, e)];
}

template <class D>
RSSM_HOST_DEVICE void load_row(const LanesOf<D>& lanes, float* to, const std::byte* p, DType dtype, int K) {
  const int size = float_size(dtype);
  RSSM_NO_UNROLL
  for (int e = 0; e < D::kElements; ++e) {
    const int k = element<D>(lanes, e);
    to[k] = inside<D>(k, K) ? load_float(p + k * size, dtype) : 0.0f;
  }
}

template <class D>
RSSM_HOST_DEVICE void store_row(const LanesOf<D>& lanes, const float* from, std::byte* p, DType dtype, int K) {
  const int size = float_size(dtype);
  RSSM_NO_UNROLL
  for (int e = 0; e < D::kElements; ++e) {
    const int k = element<D>(lanes, e);
    if (inside<D>(k, K)) store_float(p + k * size, dtype, from[k]);
  }
}

// ---- state rows in registers

template <class D>
RSSM_HOST_DEVICE void clear_tile(Tile<D>& tile) {
  RSSM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    RSSM_UNROLL
    for (int e = 0; e < D::kElements; ++e) tile.h[r][e] = 0.0f;
  }
}

// Rows first..first+3 of a head's [V][K] state; those from V on are zero and are never stored. fp32 goes straight to registers. Of the 16-bit
// types a row goes through `stage`, kPadded floats of local memory in which every lane touches its own elements alone: loops that are not
// unrolled keep the code small, and compiling it is what a first call waits for.
template <class D>
RSSM_HOST_DEVICE void load_tile(const LanesOf<D>& lanes, Tile<D>& tile, float* stage, const std::byte* head, DType dtype, int first,
                                int V, int K) {
  RSSM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t row = static_cast<std::int64_t>(first + r) * K;
    if (first + r >= V) {
      RSSM_UNROLL
      for (int e = 0; e < D::kElements; ++e) tile.h[r][e] = 0.0f;
    } else if (dtype == DType::f32) {
      RSSM_UNROLL
      for (int e = 0; e < D::kElements; ++e) {
        const int k = element<D>(lanes, e);
        tile.h[r][e] = inside<D>(k, K) ? load_as<F32>(head, row + k) : 0.0f;
      }
    } else {
      load_row<D>(lanes, stage, head + 2 * row, dtype, K);
      read_key<D>(lanes, tile.h[r], stage);
    }
  }
}

template <class D>
RSSM_HOST_DEVICE void store_tile(const LanesOf<D>& lanes, const Tile<D>& tile, float* stage, std::byte* head, DType dtype,
                                 int first, int V, int K) {
  RSSM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t row = static_cast<std::int64_t>(first + r) * K;
    if (first + r >= V) continue;
    if (dtype == DType::f32) {
      RSSM_UNROLL
      for (int e = 0; e < D::kElements; ++e) {
        const int k = element<D>(lanes, e);
        if (inside<D>(k, K)) store_as<F32>(head, row + k, tile.h[r][e]);
      }
    } else {
      write_key<D>(lanes, stage, tile.h[r]);
      store_row<D>(lanes, stage, head + 2 * row, dtype, K);
    }
  }
}

// ---- preparing tokens

// Leaves of x.y; nothing is multiplied for an index >= K.
template <class D>
RSSM_HOST_DEVICE void add_products(const LanesOf<D>& lanes, float (&leaves)[D::kLeaves], const float (&x)[D::kElements],
                                   const float (&y)[D::kElements], int K) {
  RSSM_UNROLL
  for (int m = 0; m < D::kLeaves; ++m) leaves[m] = 0.0f;
  RSSM_UNROLL
  for (int e = 0; e < D::kElements; ++e) {
    float& leaf = leaves[e % D::kLeaves];
    leaf = inside<D>(element<D>(lanes, e), K) ? arithmetic::fused_multiply_add(x[e], y[e], leaf) : leaf;
  }
}

template <class D>
RSSM_HOST_DEVICE float dot(const LanesOf<D>& lanes, const float (&x)[D::kElements], const float (&y)[D::kElements], int K) {
  float leaves[D::kLeaves];
  add_products<D>(lanes, leaves, x, y, K);
  return sum_of_leaves(lanes, leaves);
}

template <class D>
RSSM_HOST_DEVICE void scale_key(float (&x)[D::kElements], float by) {
  RSSM_UNROLL
  for (int e = 0; e < D::kElements; ++e) x[e] = x[e] * by;
}

template <class D>
RSSM_HOST_DEVICE void normalise(const LanesOf<D>& lanes, float (&x)[D::kElements], int K) {
  scale_key<D>(x, arithmetic::inverse_norm(dot<D>(lanes, x, x, K)));
}

// Decays of one token's key channels from raw gate inputs.
template <class D>
RSSM_HOST_DEVICE void write_decays(const LanesOf<D>& lanes, float* to, const GateArgs& gate, float exp_A_log, const std::byte* raw,
                                   DType dtype, int head, int K) {
  RSSM_NO_UNROLL
  for (int e = 0; e < D::kElements; ++e) {
    const int k = element<D>(lanes, e);
    if (k < K) to[k] = kda_decay_of(gate, exp_A_log, load_float(raw + k * float_size(dtype), dtype), head, k);
  }
}

// Prepares local tokens first..first+count-1 of a head. Nobody may still be reading `to`; it can be read afterwards.
template <class D>
RSSM_HOST_DEVICE void prepare_tokens(const LanesOf<D>& lanes, const RuleArgs& args, float* to, std::int64_t first, int count,
                                     int head) {
  const std::int64_t from_head = key_head(head, args.H, args.HV);
  const int K = args.K;
  const float exp_A_log = D::kKda ? exp_A_log_of(args.gate, head) : 0.0f;
  for (int t = 0; t < count; ++t) {
    float* const token = to + t * D::kTokenFloats;
    float k[D::kElements], q[D::kElements];
    load_row<D>(lanes, token, at(args.k, first + t, from_head), args.k.dtype, K);
    load_row<D>(lanes, token + D::kQuery, at(args.q, first + t, from_head), args.q.dtype, K);
    read_key<D>(lanes, k, token);
    read_key<D>(lanes, q, token + D::kQuery);
    if (args.gate.l2norm) {
      normalise<D>(lanes, k, K);
      const float inverse = arithmetic::inverse_norm(dot<D>(lanes, q, q, K));
      if constexpr (D::kKda) {
        scale_key<D>(q, inverse * args.scale);
      } else {
        scale_key<D>(q, inverse);
        scale_key<D>(q, args.scale);
      }
    } else {
      scale_key<D>(q, args.scale);
    }
    write_key<D>(lanes, token, k);
    write_key<D>(lanes, token + D::kQuery, q);
    const float key_dot_query = dot<D>(lanes, k, q, K);
    if (lanes.lane == 0) token[D::kKeyDotQuery] = key_dot_query;
    if constexpr (D::kKda) {
      write_decays<D>(lanes, token + D::kDecays, args.gate, exp_A_log, at(args.a, first + t, head), args.a.dtype, head, K);
    }
  }
  for (int t = lanes.lane; t < count; t += D::kSub) {
    float* const token = to + t * D::kTokenFloats;
    token[D::kBeta] = arithmetic::sigmoid(load_float(at(args.b, first + t, head), args.b.dtype));
    if constexpr (!D::kKda) {
      token[D::kDecay] = gdn_decay_of(args.gate, load_float(at(args.a, first + t, head), args.a.dtype), head);
    }
  }
  lanes.barrier();
}

// Keys and decays of records first..first+count-1 of a head in `block`, as prepare_tokens leaves them.
template <class D>
RSSM_HOST_DEVICE void prepare_records(const LanesOf<D>& lanes, const RecordArgs& records, const GateArgs& gate, float* to,
                                      std::int64_t block, int head, int first, int count, int K, int V) {
  const float exp_A_log = D::kKda ? exp_A_log_of(gate, head) : 0.0f;
  for (int t = 0; t < count; ++t) {
    float* const token = to + t * D::kTokenFloats;
    if constexpr (D::kKda) {
      const DType dtype = records.key_gate.dtype;
      const std::byte* const record = at(records.key_gate, block, head, first + t);
      load_row<D>(lanes, token, record, dtype, K);
      if (gate.l2norm) {
        float k[D::kElements];
        read_key<D>(lanes, k, token);
        normalise<D>(lanes, k, K);
        write_key<D>(lanes, token, k);
      }
      write_decays<D>(lanes, token + D::kDecays, gate, exp_A_log, record + K * float_size(dtype), dtype, head, K);
    } else {
      const float* const record = reinterpret_cast<const float*>(at(records.packed, block, head, first + t)) + V;
      load_row<D>(lanes, token, reinterpret_cast<const std::byte*>(record), DType::f32, K);
      if (lanes.lane == 0) token[D::kDecay] = record[K];
    }
  }
  lanes.barrier();
}

// Writes what commit needs to repeat k^ and d of tokens already prepared: positions position.. of the head's records.
template <class D>
RSSM_HOST_DEVICE void write_keys(const LanesOf<D>& lanes, const RuleArgs& args, const RecordArgs& records, const float* from,
                                 std::int64_t block, int head, std::int64_t first_token, int position, int count) {
  for (int t = 0; t < count; ++t) {
    if constexpr (D::kKda) {  // raw key and raw gate input, bit by bit: commit computes k^ and d with the same functions
      const int size = float_size(args.k.dtype);
      std::byte* const record = at(records.key_gate, block, head, position + t);
      const std::byte* const key = at(args.k, first_token + t, key_head(head, args.H, args.HV));
      const std::byte* const gate = at(args.a, first_token + t, head);
      for (int k = lanes.lane; k < args.K; k += D::kSub) {
        copy_element(record + k * size, key + k * size, size);
        copy_element(record + (args.K + k) * size, gate + k * size, size);
      }
    } else {
      float* const record = reinterpret_cast<float*>(at(records.packed, block, head, position + t)) + args.V;
      const float* const token = from + t * D::kTokenFloats;
      for (int k = lanes.lane; k < args.K; k += D::kSub) record[k] = token[k];
      if (lanes.lane == 0) record[args.K] = token[D::kDecay];
    }
  }
}

// ---- one token

// h * d, rounded.
template <class D>
RSSM_HOST_DEVICE void decay_tile(const LanesOf<D>& lanes, Tile<D>& tile, const float* token) {
  const float whole = D::kKda ? 0.0f : token[D::kDecay];
  RSSM_UNROLL
  for (int e = 0; e < D::kElements; ++e) {
    const float d = D::kKda ? token[D::kDecays + element<D>(lanes, e)] : whole;
    RSSM_UNROLL
    for (int r = 0; r < kRows; ++r) tile.h[r][e] = tile.h[r][e] * d;
  }
}

template <class D>
RSSM_HOST_DEVICE void add_rank_one(Tile<D>& tile, int r, float c, const float (&k)[D::kElements]) {
  RSSM_UNROLL
  for (int e = 0; e < D::kElements; ++e) tile.h[r][e] = arithmetic::fused_multiply_add(c, k[e], tile.h[r][e]);
}

// What a token leaves: lane l has those of row l mod 4.
struct Results {
  float correction, out;
};

// A prepared token; value: the lane's row's.
template <class D>
RSSM_HOST_DEVICE Results step(const LanesOf<D>& lanes, Tile<D>& tile, const float* token, float value, int K) {
  decay_tile<D>(lanes, tile, token);
  float k[D::kElements];
  read_key<D>(lanes, k, token);
  float sums[2 * kRows * D::kLeaves];
  RSSM_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float leaves[D::kLeaves];
    add_products<D>(lanes, leaves, tile.h[r], k, K);
    RSSM_UNROLL
    for (int m = 0; m < D::kLeaves; ++m) sums[2 * m * kRows + r] = leaves[m];
  }
  {
    float q[D::kElements];
    read_key<D>(lanes, q, token + D::kQuery);
    RSSM_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float leaves[D::kLeaves];
      add_products<D>(lanes, leaves, tile.h[r], q, K);
      RSSM_UNROLL
      for (int m = 0; m < D::kLeaves; ++m) sums[(2 * m + 1) * kRows + r] = leaves[m];
    }
  }
  float with_key, with_query;
  both_dots<D::kSub>(lanes, sums, with_key, with_query);
  const float correction = (value - with_key) * token[D::kBeta];
  const float out = arithmetic::fused_multiply_add(correction, token[D::kKeyDotQuery], with_query);
  RSSM_UNROLL
  for (int r = 0; r < kRows; ++r) add_rank_one<D>(tile, r, lanes.from(correction, r), k);
  return {correction, out};
}

// Runs tokens first_token.. through a tile of value rows value..value+3: outputs, and corrections to records position.. of `block` where
// there are any. after(t): once the tile holds the state after token t of these. As many tokens as make a row of lanes are loaded and
// stored at once, each lane one of their values: a compiler that vectorises over lanes does a masked access of 16 bits lane by lane.
template <class D, class After>
RSSM_HOST_DEVICE void run_tokens(const LanesOf<D>& lanes, Tile<D>& tile, const RuleArgs& rule, const RowsArgs& rows,
                                 const View& out, const View& corrections, const float* tokens, std::int64_t block, int head,
                                 int value, std::int64_t first_token, int position, int count, After&& after) {
  constexpr int kTokens = D::kSub / kRows;
  const int row = lanes.lane % kRows, mine = value + row;
  for (int first = 0; first < count; first += kTokens) {
    const int token = first + lanes.lane / kRows, last = count - first < kTokens ? count : first + kTokens;
    const bool there = mine < rule.V && token < count;
    const float v = there ? load_float(at(rule.v, first_token + token, head, mine), rule.v.dtype) : 0.0f;
    Results results = {0.0f, 0.0f};  // the lane's
    for (int t = first; t < last; ++t) {
      const Results all = step<D>(lanes, tile, tokens + t * D::kTokenFloats, lanes.from(v, (t - first) * kRows + row), rule.K);
      results.correction = t == token ? all.correction : results.correction;
      results.out = t == token ? all.out : results.out;
      after(t);
    }
    if (there) {
      store_float(at(out, global_row(rows, first_token + token), head, mine), out.dtype, results.out);
      if (corrections.present) *reinterpret_cast<float*>(at(corrections, block, head, position + token, mine)) = results.correction;
    }
  }
}

// Replays a record, whose key and decay are prepared in `token`, into value rows value..value+3.
template <class D>
RSSM_HOST_DEVICE void replay_record(const LanesOf<D>& lanes, Tile<D>& tile, const float* token, const float* record, int value,
                                    int V) {
  decay_tile<D>(lanes, tile, token);
  float k[D::kElements];
  read_key<D>(lanes, k, token);
  RSSM_UNROLL
  for (int r = 0; r < kRows; ++r) add_rank_one<D>(tile, r, record[value + r < V ? value + r : V - 1], k);
}

// ---- a task's place

template <class D>
struct Task {
  LanesOf<D> lanes;
  float* stage;   // local memory of the sub-group: a row
  float* tokens;  // and prepared tokens
  std::int64_t number;
  std::int64_t row, layer;

  RSSM_HOST_DEVICE Task(const ::sycl::nd_item<3>& item, const DeltaCut& cut, float* local)
      : lanes(item),
        stage(local + static_cast<std::int64_t>(sub_group_index<D::kGroups>(lanes.group)) * cut.local_floats),
        tokens(stage + D::kPadded),
        number(static_cast<std::int64_t>(item.get_group(2)) * D::kGroups + sub_group_index<D::kGroups>(lanes.group)),
        row(static_cast<std::int64_t>(item.get_group(1))),
        layer(static_cast<std::int64_t>(item.get_group(0))) {}
};

// ---- rows

// A row with a token_index entry that names no row writes nothing. The lanes' findings meet in local memory: what a sub-group function returns
// would be one value a lane to the CPU's compiler, and so would all that a row decides.
template <class D>
RSSM_HOST_DEVICE void drop_bad_tokens(const LanesOf<D>& lanes, float* stage, const RowsArgs& args, DeviceRow& row) {
  if (!args.token_index.present || row.kind == DeviceRowKind::skip) return;
  if (lanes.lane == 0) stage[0] = 0.0f;
  lanes.barrier();
  for (std::int64_t t = lanes.lane; t < row.length; t += D::kSub) {
    if (!names_a_row(args, row.begin + t)) stage[0] = 1.0f;
  }
  lanes.barrier();
  if (stage[0] != 0.0f) drop_row(row);
  lanes.barrier();
}

// Lazy form: how many records wait now, said by a row's first task. Its other heads may read either count: of both, all that they look at is
// whether it is in range.
template <int SG>
RSSM_HOST_DEVICE void set_pending(const Lanes<SG>& lanes, const View& pending, std::int32_t block, std::int32_t count) {
  if (!pending.present || lanes.lane != 0) return;
  auto& value = *reinterpret_cast<std::int32_t*>(at(pending, block));
  ::sycl::atomic_ref<std::int32_t, ::sycl::memory_order::relaxed, ::sycl::memory_scope::device>(value).store(count);
}

// Outputs of a null row: zeros for value rows value0..last-1 of its tokens.
template <int SG>
RSSM_HOST_DEVICE void zero_out(const Lanes<SG>& lanes, const View& out, const RowsArgs& rows, const DeviceRow& row, int head,
                               int value0, int last) {
  const int size = float_size(out.dtype);
  for (std::int64_t t = 0; t < row.length; ++t) {
    std::byte* const to = at(out, global_row(rows, row.begin + t), head);
    for (int v = value0 + lanes.lane; v < last; v += SG) clear_element(to + static_cast<std::int64_t>(v) * size, size);
  }
}

}  // namespace recoverssm::sycl_backend
