// align_move and align_advance: shapes, strides, dtypes.
#include "recoverssm/align.hpp"

#include "contract/layers.h"
#include "contract/overlap.h"
#include "contract/rows.h"

namespace recoverssm {

Status validate(const AlignMoveParams& p) {
  Check check("align_move");
  check_indices(check, "from", p.from, any("N"));
  if (check.ok()) check_indices(check, "to", p.to, {"N", p.from.shape[0]});
  const LayersUse use{.records = false};
  check_layers(check, p.layers, use);
  if (!check.ok()) return check.take();
  const auto layers = static_cast<std::int64_t>(p.layers.size());
  check_overlap(check, 2 + layers * kLayerViews, [&](std::int64_t i) -> Operand {
    if (i == 0) return {"from", &p.from};
    if (i == 1) return {"to", &p.to};
    return layer_operand(p.layers, use, i - 2);
  });
  return check.take();
}

Status validate(const AlignAdvanceParams& p) {
  Check check("align_advance");
  check_indices(check, "state_indices", p.state_indices, any("N"));
  if (!check.ok()) return check.take();
  const std::int64_t N = p.state_indices.shape[0];
  check_indices(check, "commit_len", p.commit_len, {"N", N});
  check_optional_indices(check, "request_index", p.request_index, {"N", N});
  // Without a request_index, row i belongs to request i.
  check_indices(check, "num_computed", p.num_computed, p.request_index.present() ? any("R") : at_least("R", N));
  if (!check.ok()) return check.take();
  const Dim R{"R", p.num_computed.shape[0]};
  check.at_least("block_size", p.block_size, 1);
  check_indices(check, "running_column", p.running_column, R);
  check_indices(check, "num_accepted", p.num_accepted, R);
  check_overlap(check, {{"commit_len", &p.commit_len},
                        {"state_indices", &p.state_indices},
                        {"request_index", &p.request_index},
                        {"num_computed", &p.num_computed},
                        {"running_column", &p.running_column, true},
                        {"num_accepted", &p.num_accepted, true}});
  return check.take();
}

}  // namespace recoverssm
