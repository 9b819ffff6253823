#include "contract/packed.h"

namespace recoverssm {

HeadSizes check_packed(Check& check, const PackedProjections& p) {
  check.one_of("layout", p.layout, {Layout::interleaved, Layout::flat}, "interleaved or flat");
  check.at_least("num_k_heads", p.num_k_heads, 1);
  check.at_least("num_v_heads", p.num_v_heads, 1);
  check.at_least("head_k_dim", p.head_k_dim, 1);
  check.at_least("head_v_dim", p.head_v_dim, 1);
  if (!check.ok()) return {};
  const HeadSizes s{p.num_k_heads, p.num_v_heads, p.head_k_dim, p.head_v_dim};
  check_head_counts(check, "num_v_heads", s.HV, s.H);
  const std::int64_t keys = times(2, times(s.H, s.K)), values = times(s.HV, s.V);
  check.view("qkvz", p.qkvz, kFloats, {any("n"), {"2*H*K + 2*HV*V", plus(keys, times(2, values))}});
  check.contiguous_last("qkvz", p.qkvz);
  check.view("ba", p.ba, p.qkvz.dtype, {any("n"), {"2*HV", 2 * s.HV}});
  return s;
}

std::int64_t conv_channels(const HeadSizes& s) { return plus(times(2, times(s.H, s.K)), times(s.HV, s.V)); }

}  // namespace recoverssm
