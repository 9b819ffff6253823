// split_projections: shapes, strides, dtypes.
#include "recoverssm/projections.hpp"

#include "contract/overlap.h"
#include "contract/packed.h"
#include "contract/rows.h"

namespace recoverssm {

Status validate(const SplitProjectionsParams& p) {
  Check check("split_projections");
  const HeadSizes s = check_packed(check, {p.qkvz, p.ba, p.layout, p.num_k_heads, p.num_v_heads, p.head_k_dim, p.head_v_dim});
  check_optional_indices(check, "token_index", p.token_index, any("tokens"));
  if (!check.ok()) return check.take();
  const DType T = p.qkvz.dtype;
  const bool all_rows = !p.token_index.present();
  const std::int64_t tokens = all_rows ? p.qkvz.shape[0] : p.token_index.shape[0];
  const Dim local = at_least("tokens", tokens);
  // Without a token_index every row of qkvz is a token; with one, its entries say which rows are used.
  const Dim global = all_rows ? at_least("tokens", tokens) : any("n");
  check.view("ba", p.ba, T, {global, any("2*HV")});
  check.view("mixed_qkv", p.mixed_qkv, T, {local, {"C = 2*H*K + HV*V", conv_channels(s)}});
  check.contiguous_last("mixed_qkv", p.mixed_qkv);
  check_head_rows(check, "z", p.z, T, global, s.HV, s.V);
  check.view("b", p.b, T, {local, {"HV", s.HV}});
  check.view("a", p.a, T, {local, {"HV", s.HV}});
  check_overlap(check, {{"qkvz", &p.qkvz},
                        {"ba", &p.ba},
                        {"mixed_qkv", &p.mixed_qkv, true},
                        {"z", &p.z, true},
                        {"b", &p.b, true},
                        {"a", &p.a, true},
                        {"token_index", &p.token_index}});
  return check.take();
}

}  // namespace recoverssm
