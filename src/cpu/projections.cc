// split_projections on the CPU: packed projection rows to mixed_qkv, z, b and a. Moves bits.
#include <algorithm>

#include "contract/rules.h"
#include "cpu/line.h"
#include "cpu/ops.h"
#include "cpu/view.h"

namespace recoverssm::cpu {
namespace {

// A token moves some ten kilobytes; a few of them make a task worth handing to a thread.
constexpr std::int64_t kTokensPerTask = 8;

// Writes one token's runs in the order they are packed in, so that a layout is just the order of the calls below.
class Unpacker {
 public:
  Unpacker(const TensorView& packed, std::int64_t row)
      : from_(at(packed, row, 0)), size_(size_of(packed.dtype)), stride_(packed.stride[1] * size_) {}

  // The next n elements go to `to`, whose elements are to_stride elements apart.
  void take(std::int64_t n, std::byte* to, std::int64_t to_stride) {
    copy_elements(from_, stride_, to, to_stride * size_, n, size_);
    from_ += n * stride_;
  }

 private:
  const std::byte* from_;
  std::int64_t size_, stride_;
};

void split_qkvz(const SplitProjectionsParams& p, std::int64_t global, std::int64_t local) {
  const std::int64_t H = p.num_k_heads, HV = p.num_v_heads, K = p.head_k_dim, V = p.head_v_dim;
  Unpacker packed(p.qkvz, global);
  const auto take_qkv = [&](std::int64_t channel, std::int64_t n) {
    packed.take(n, at(p.mixed_qkv, local, channel), p.mixed_qkv.stride[1]);
  };
  const auto take_z = [&](std::int64_t first_head, std::int64_t heads) {
    for (std::int64_t h = first_head; h < first_head + heads; ++h) packed.take(V, at(p.z, global, h, 0), p.z.stride[2]);
  };
  const std::int64_t k_channels = H * K, v_channels = 2 * H * K;  // where k and v start in q, k, v order
  if (p.layout == Layout::flat) {
    take_qkv(0, 2 * H * K + HV * V);
    take_z(0, HV);
    return;
  }
  const std::int64_t r = HV / H;
  for (std::int64_t h = 0; h < H; ++h) {
    take_qkv(h * K, K);
    take_qkv(k_channels + h * K, K);
    take_qkv(v_channels + h * r * V, r * V);
    take_z(h * r, r);
  }
}

void split_ba(const SplitProjectionsParams& p, std::int64_t global, std::int64_t local) {
  const std::int64_t HV = p.num_v_heads;
  const std::int64_t run = p.layout == Layout::flat ? HV : HV / p.num_k_heads;
  Unpacker packed(p.ba, global);
  for (std::int64_t head = 0; head < HV; head += run) {
    packed.take(run, at(p.b, local, head), p.b.stride[1]);
    packed.take(run, at(p.a, local, head), p.a.stride[1]);
  }
}

}  // namespace

std::size_t scratch_size(const SplitProjectionsParams&, int) { return 0; }

void execute(const SplitProjectionsParams& p, const Execution& e) {
  const std::int64_t tokens = p.token_index.present() ? p.token_index.shape[0] : p.qkvz.shape[0];
  parallel_for(e, (tokens + kTokensPerTask - 1) / kTokensPerTask, [&](std::int64_t task, int) {
    const std::int64_t end = std::min(tokens, (task + 1) * kTokensPerTask);
    for (std::int64_t t = task * kTokensPerTask; t < end; ++t) {
      const std::int64_t global = global_row(p.token_index, t);
      split_qkvz(p, global, t);
      split_ba(p, global, t);
    }
  });
  if (e.counters != nullptr) {
    const std::int64_t bytes = tokens * (p.qkvz.shape[1] + p.ba.shape[1]) * size_of(p.qkvz.dtype);
    e.counters->tokens += tokens;
    e.counters->activation_read += bytes;
    e.counters->activation_written += bytes;
  }
}

}  // namespace recoverssm::cpu
