// gdn_attention on CUDA: per part three launches. The first looks at the rows, so that all of them agree on which are null and on what the
// convolution sees, and moves z, b and a; the second convolves straight from the packed rows; the third is the delta rule. (A plain part
// with pending, or with long rows, takes one more each.) Intermediates live in the workspace; the parts run one after the other and share
// it.

#include <algorithm>

#include "contract/attention_parts.h"
#include "cuda/conv.cuh"
#include "cuda/lazy.cuh"
#include "cuda/moves.cuh"
#include "cuda/ops.h"
#include "cuda/verify.h"

namespace recoverssm::cuda {
namespace {

enum class PartKind : std::uint8_t { plain, snapshots, verify };

struct PartArgs {
  RowsArgs rows;
  View qkvz, ba, z, b, a, pending;
  PackedSizes sizes;
  PartKind kind{};
  LineKind line_kind{};
  std::int64_t record_capacity = 0;
  std::int64_t history = 0, columns = 0;  // of the line
  std::int32_t* ids = nullptr;            // [N] blocks for the convolution and, but for snapshots, the rule; null where the row is
  std::int32_t* counts = nullptr;         // [N] num_accepted as the line uses it
  std::int32_t* done = nullptr;           // [N] zeros
  std::int64_t z_tiles = 0;               // blocks along x that move z; those behind them move b and a
  std::int64_t tokens_per_block = 0;
};

// What a row's line is read at.
struct LineUse {
  std::int32_t block = 0;
  std::int32_t count = 0;
};

__device__ __forceinline__ DeviceRow look_at_row(const PartArgs& args, std::int64_t i, LineUse& use) {
  use = {args.rows.null_block_id, static_cast<std::int32_t>(compacted_count(args.line_kind))};
  const bool counted = args.rows.num_accepted.present;
  if (args.kind == PartKind::snapshots) {
    const DeviceRow row = snapshots_row(args.rows, i);
    // Its line is the block of column 0.
    if (row.kind == DeviceRowKind::live) use = {i32_at(args.rows.state_indices, i, 0), i32_at(args.rows.num_accepted, i)};
    return row;
  }
  bool from_block = true;
  int waiting = 0;
  DeviceRow row = args.kind == PartKind::verify ? verify_row(args.rows, args.pending, i, waiting)
                                                : plain_row(args.rows, args.pending, args.record_capacity, i, from_block, waiting);
  if (row.kind != DeviceRowKind::live) return row;
  if (counted && from_block) {
    // An anchored line in the lazy form moves by as many positions as records are folded.
    const bool folded = args.pending.present && args.line_kind == LineKind::anchored;
    use.count = folded ? waiting : i32_at(args.rows.num_accepted, i);
    if (args.kind == PartKind::plain && history_start(args.line_kind, use.count) + args.history > args.columns) {
      make_null(row, ErrorKind::out_of_range);
      return row;
    }
  }
  use.block = row.block;
  return row;
}

// Grid: x tiles of a token's z, and behind them of its b and a; y rows; z shares of a row's tokens. Of every token of every row, null rows included.
template <int kSize, int kLanes>
__global__ void __launch_bounds__(kSplitThreads) rows_kernel(const __grid_constant__ PartArgs args) {
  const PackedSizes& s = args.sizes;
  const bool wide = blockIdx.x < args.z_tiles;
  const std::int64_t tile = wide ? blockIdx.x : blockIdx.x - args.z_tiles;
  const std::int64_t e = (tile * kSplitThreads + threadIdx.x) * (wide ? kLanes : 1);
  const bool active = e < (wide ? s.HV * s.V : 2 * s.HV);
  const Run run = !active ? Run{} : wide ? z_run<kSize>(s, args.qkvz, args.z, e) : gate_run<kSize>(s, args.ba, args.b, args.a, e);
  let_next_start(gridDim.x * gridDim.y * gridDim.z <= kFewConvBlocks);
  after_previous();
  const std::int64_t i = blockIdx.y;
  LineUse use;
  DeviceRow row = look_at_row(args, i, use);
  drop_bad_tokens(args.rows, row);
  report_row(args.rows, row, i);
  if (blockIdx.x == 0 && blockIdx.z == 0 && threadIdx.x == 0) {
    args.ids[i] = row.kind == DeviceRowKind::live ? use.block : args.rows.null_block_id;
    args.counts[i] = use.count;
    args.done[i] = 0;
  }
  const auto row_of = [&](std::int64_t local) { return global_row(args.rows, local); };
  const std::int64_t last = row.begin + row.length, step = args.tokens_per_block * gridDim.z;
  for (std::int64_t begin = row.begin + args.tokens_per_block * blockIdx.z; begin < last; begin += step) {
    const std::int64_t end = min64(last, begin + args.tokens_per_block);
    if (wide) {
      move_tokens<LaneBits<kSize, kLanes>>(run, active, begin, end, row_of);
    } else {
      move_tokens<ElementBits<kSize>>(run, active, begin, end, row_of);
    }
  }
}

// Enough to keep memory busy; every block reads a row's whole token_index.
constexpr std::int64_t kMostRowBlocks = 16 * kFullGrid;

template <int kSize, int kLanes>
void launch_rows(PartArgs args, std::int64_t tokens, Launcher& launcher) {
  const std::int64_t N = args.rows.rows;
  args.z_tiles = blocks_for(args.sizes.HV * args.sizes.V, std::int64_t{kSplitThreads} * kLanes);
  const std::int64_t tiles = args.z_tiles + blocks_for(2 * args.sizes.HV, kSplitThreads);
  const bool plain = args.kind == PartKind::plain;
  const std::int64_t average = plain ? blocks_for(tokens, N) : min64(args.rows.capacity, tokens);
  args.tokens_per_block = split_tokens(tiles * N, average);
  // Where plain rows are long on the average one may have all tokens.
  const std::int64_t longest = plain && average > args.tokens_per_block ? tokens : average;
  const std::int64_t most = std::max<std::int64_t>(kMostRowBlocks / (tiles * N), 1);
  const std::int64_t shares = std::clamp<std::int64_t>(blocks_for(longest, args.tokens_per_block), 1, most);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(N), static_cast<unsigned>(shares));
  launcher.put(rows_kernel<kSize, kLanes>, grid, kSplitThreads, 0, args);
}

// What a part's chain works on beside the caller's tensors.
struct Intermediates {
  TensorView mixed_qkv, b, a;  // [tokens, ...] T
  std::int32_t *ids = nullptr, *counts = nullptr, *done = nullptr;
  std::byte* halos = nullptr;
};

PackedSizes sizes_of(const GdnAttentionParams& p) { return {p.layout, p.num_k_heads, p.num_v_heads, p.head_k_dim, p.head_v_dim}; }

std::int64_t global_rows_of(const GdnAttentionParams& p) {
  return std::min({p.qkvz.shape[0], p.ba.shape[0], p.out.shape[0], p.z.shape[0]});
}

std::int64_t local_tokens_of(const GdnAttentionParams& p, const Rows& rows) {
  return rows.token_index.present() ? rows.token_index.shape[0] : global_rows_of(p);
}

Segments cut_of(const GdnAttentionParams& p, const Rows& rows, PartKind kind) {
  if (kind != PartKind::plain) return {};
  return cut_rows(local_tokens_of(p, rows), rows.state_indices.shape[0], kConvSegment);
}

Intermediates carve(Carver& carver, const GdnAttentionParams& p, const Rows& rows, PartKind kind) {
  const PackedSizes s = sizes_of(p);
  const std::int64_t tokens = local_tokens_of(p, rows), C = qkv_channels(s), size = size_of(p.qkvz.dtype);
  const std::int64_t N = rows.state_indices.shape[0];
  const DType T = p.qkvz.dtype;
  Intermediates m;
  m.mixed_qkv = TensorView(carver.take<std::byte>(tokens * C * size), T, {tokens, C});
  m.b = TensorView(carver.take<std::byte>(tokens * s.HV * size), T, {tokens, s.HV});
  m.a = TensorView(carver.take<std::byte>(tokens * s.HV * size), T, {tokens, s.HV});
  m.ids = carver.take<std::int32_t>(N);
  m.counts = carver.take<std::int32_t>(N);
  m.done = carver.take<std::int32_t>(N);
  m.halos = carver.take<std::byte>(static_cast<std::int64_t>(halo_bytes(cut_of(p, rows, kind), p.weight.shape[1], C, T)));
  return m;
}

std::size_t part_bytes(const GdnAttentionParams& p, const Rows& rows, PartKind kind) {
  Carver carver(nullptr);
  carve(carver, p, rows, kind);
  return carver.used();
}

PartKind window_kind(const GdnAttentionParams& p) {
  return p.windows->mode == WindowMode::snapshots ? PartKind::snapshots : PartKind::verify;
}

std::int64_t capacity_of(const Rows& rows, PartKind kind) {
  if (kind == PartKind::plain) return 0;
  return kind == PartKind::snapshots ? rows.state_indices.shape[1] : rows.window_capacity;
}

RuleInputs rule_inputs(const GdnAttentionParams& p, const Intermediates& m) {
  const PackedSizes s = sizes_of(p);
  const std::int64_t tokens = m.mixed_qkv.shape[0], C = qkv_channels(s), size = size_of(p.qkvz.dtype);
  const DType T = p.qkvz.dtype;
  auto* const base = static_cast<std::byte*>(m.mixed_qkv.data);
  return {.gate = Gate::gdn,
          .q = {base, T, {tokens, s.H, s.K}, {C, s.K, 1}},
          .k = {base + s.H * s.K * size, T, {tokens, s.H, s.K}, {C, s.K, 1}},
          .v = {base + 2 * s.H * s.K * size, T, {tokens, s.HV, s.V}, {C, s.V, 1}},
          .a = m.a,
          .b = m.b,
          .A_log = p.A_log,
          .dt_bias = p.dt_bias,
          .lower_bound = std::nullopt,
          .scale = p.scale,
          .l2norm = p.l2norm,
          .softplus_beta = p.softplus_beta,
          .softplus_threshold = p.softplus_threshold};
}

template <int kSize>
void launch_rows(const GdnAttentionParams& p, const PartArgs& args, std::int64_t tokens, Launcher& launcher) {
  constexpr int kWidest = 16 / kSize;
  if (z_lanes_fit(args.sizes, p.qkvz, p.z, kWidest)) return launch_rows<kSize, kWidest>(args, tokens, launcher);
  launch_rows<kSize, 1>(args, tokens, launcher);
}

// One part up to the rule's inputs. Returns the rows as the rule takes them.
Rows prepare_part(const GdnAttentionParams& p, Rows rows, PartKind kind, const TensorView& pending, std::int64_t record_capacity,
                  const Intermediates& m, const Launch& launch, Launcher& launcher) {
  rows.null_block_id = p.null_block_id;
  const std::int64_t N = rows.state_indices.shape[0], tokens = m.mixed_qkv.shape[0], capacity = capacity_of(rows, kind);
  PartArgs part;
  part.rows = rows_args(rows, capacity, tokens, global_rows_of(p), min64(p.state.shape[0], p.line.shape[0]),
                        Operation::gdn_attention, launch);
  part.qkvz = view_of(p.qkvz);
  part.ba = view_of(p.ba);
  part.z = view_of(p.z);
  part.b = view_of(m.b);
  part.a = view_of(m.a);
  part.pending = view_of(pending);
  part.sizes = sizes_of(p);
  part.kind = kind;
  part.line_kind = p.line_kind;
  part.record_capacity = record_capacity;
  part.history = p.weight.shape[1] - 1;
  part.columns = p.line.shape[1];
  part.ids = m.ids;
  part.counts = m.counts;
  part.done = m.done;
  if (size_of(p.qkvz.dtype) == 4) {
    launch_rows<4>(p, part, tokens, launcher);
  } else {
    launch_rows<2>(p, part, tokens, launcher);
  }

  Rows line_rows = rows;
  line_rows.state_indices = TensorView(m.ids, DType::i32, {N});
  line_rows.num_accepted = TensorView(m.counts, DType::i32, {N});
  ConvArgs<PackedColumns> conv;
  conv.rows = rows_args(line_rows, capacity, tokens, global_rows_of(p), p.line.shape[0], Operation::gdn_attention, launch);
  conv.line = line_args(p.line, p.line_kind, p.weight.shape[1] - 1);
  conv.x = view_of(p.qkvz);
  conv.out = view_of(m.mixed_qkv);
  conv.weight = view_of(p.weight);
  conv.bias = view_of(p.bias);
  conv.columns = {part.sizes};
  conv.channels = qkv_channels(part.sizes);
  conv.taps = static_cast<int>(p.weight.shape[1]);
  conv.silu = p.activation == Activation::silu;
  conv.local_out = true;
  conv.weight_rows = weight_rows_fit(p.weight);
  conv.cut = cut_of(p, rows, kind);
  conv.halos = m.halos;
  const bool fits = packed_lanes_fit(part.sizes, kConvLanes) && conv_lanes_fit(p.qkvz, m.mixed_qkv);
  if (kind == PartKind::plain) {
    launch_conv<false>(conv, fits, launcher);
  } else {
    launch_conv<true>(conv, fits, launcher);
  }
  if (kind != PartKind::snapshots) rows.state_indices = line_rows.state_indices;
  return rows;
}

// `out` with no more rows than every globally addressed tensor has, so that the rule and the rows kernel refuse the same offsets.
TensorView common_out(const GdnAttentionParams& p) {
  TensorView out = p.out;
  out.shape[0] = global_rows_of(p);
  return out;
}

Status run_plain(const GdnAttentionParams& p, const Launch& launch) {
  Carver carver(launch.workspace.data);
  const Intermediates m = carve(carver, p, p.plain->rows, PartKind::plain);
  const TensorView& pending = plain_pending(p);
  const std::int64_t capacity = pending.present() ? record_capacity(Gate::gdn, plain_records(p)) : 0;
  Launcher launcher(launch);
  GatedDeltaRuleParams rule;
  rule.rows = prepare_part(p, p.plain->rows, PartKind::plain, pending, capacity, m, launch, launcher);
  if (!launcher.ok()) return launcher.status("gdn_attention");
  if (!pending.present()) rule.rows.num_accepted = {};  // it concerns the line only
  rule.inputs = rule_inputs(p, m);
  rule.state = p.state;
  rule.out = common_out(p);
  rule.pending = pending;
  rule.records = plain_records(p);
  return execute(rule, launch);
}

Status run_windows(const GdnAttentionParams& p, const Launch& launch) {
  const AttentionWindowPart& part = *p.windows;
  const PartKind kind = window_kind(p);
  Carver carver(launch.workspace.data);
  const Intermediates m = carve(carver, p, part.rows, kind);
  Launcher launcher(launch);
  const Rows rows = prepare_part(p, part.rows, kind, part.pending, part.rows.window_capacity, m, launch, launcher);
  if (!launcher.ok()) return launcher.status("gdn_attention");
  if (kind == PartKind::snapshots) {
    return execute(GatedDeltaRuleSnapshotsParams{.inputs = rule_inputs(p, m), .state = p.state, .out = common_out(p), .rows = rows},
                   launch);
  }
  GatedDeltaRuleVerifyParams verify;
  verify.inputs = rule_inputs(p, m);
  verify.state = p.state;
  verify.out = common_out(p);
  verify.records = part.records;
  verify.rows = rows;
  verify.pending = part.pending;
  return execute_verify(verify, launch, m.done);
}

bool has_rows(const Rows& rows) { return rows.state_indices.shape[0] > 0; }

}  // namespace

std::size_t scratch_size(const GdnAttentionParams& p) {
  std::size_t bytes = 0;
  if (p.plain) bytes = std::max(bytes, part_bytes(p, p.plain->rows, PartKind::plain));
  if (p.windows) bytes = std::max(bytes, part_bytes(p, p.windows->rows, window_kind(p)));
  return bytes;
}

Status execute(const GdnAttentionParams& p, const Launch& launch) {
  if (p.plain && has_rows(p.plain->rows)) {
    if (Status status = run_plain(p, launch); !status.ok()) return status;
  }
  return p.windows && has_rows(p.windows->rows) ? run_windows(p, launch) : Status{};
}

}  // namespace recoverssm::cuda
