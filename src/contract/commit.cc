// commit and materialize: shapes, strides, dtypes.
#include "recoverssm/commit.hpp"

#include "contract/layers.h"
#include "contract/overlap.h"
#include "contract/rows.h"

namespace recoverssm {
namespace {

void check_commit_group(Check& check, const Name& name, const CommitGroup& group) {
  check_indices(check, name.dot("state_indices"), group.state_indices, any("N"));
  if (!check.ok()) return;
  const Dim N{"N", group.state_indices.shape[0]};
  check_indices(check, name.dot("commit_len"), group.commit_len, N);
  check_indices(check, name.dot("final_indices"), group.final_indices, N);
  check_indices(check, name.dot("boundary_indices"), group.boundary_indices, N);
  check_indices(check, name.dot("boundary_len"), group.boundary_len, N);
}

constexpr std::int64_t kGroupViews = 5;

Operand group_operand(std::span<const CommitGroup> groups, std::int64_t i) {
  const CommitGroup& group = groups[static_cast<std::size_t>(i / kGroupViews)];
  const Name name = Name("groups").at(i / kGroupViews);
  switch (i % kGroupViews) {
    case 0:
      return {name.dot("state_indices"), &group.state_indices};
    case 1:
      return {name.dot("commit_len"), &group.commit_len};
    case 2:
      return {name.dot("final_indices"), &group.final_indices};
    case 3:
      return {name.dot("boundary_indices"), &group.boundary_indices};
    default:
      return {name.dot("boundary_len"), &group.boundary_len};
  }
}

}  // namespace

Status validate(const CommitParams& p) {
  Check check("commit");
  const auto groups = static_cast<std::int64_t>(p.groups.size());
  const auto layers = static_cast<std::int64_t>(p.layers.size());
  check.at_least("window_capacity", p.window_capacity, 1);
  for (std::int64_t g = 0; g < groups; ++g) check_commit_group(check, Name("groups").at(g), p.groups[static_cast<std::size_t>(g)]);
  for (std::int64_t l = 0; l < layers && check.ok(); ++l) {
    const std::int32_t group = p.layers[static_cast<std::size_t>(l)].group;
    if (group >= 0 && group < groups) continue;
    check.invalid(Name("layers").at(l).dot("group"), text(group), text("an index below the number of groups, ", groups));
  }
  const LayersUse use{.capacity = p.window_capacity, .groups = true};
  check_layers(check, p.layers, use);
  if (!check.ok()) return check.take();
  check_overlap(check, groups * kGroupViews + layers * kLayerViews, [&](std::int64_t i) {
    return i < groups * kGroupViews ? group_operand(p.groups, i) : layer_operand(p.layers, use, i - groups * kGroupViews);
  });
  return check.take();
}

Status validate(const MaterializeParams& p) {
  Check check("materialize");
  check_indices(check, "blocks", p.blocks, any("M"));
  if (check.ok()) check_indices(check, "num_accepted", p.num_accepted, {"M", p.blocks.shape[0]});
  const LayersUse use{.pending_required = true};
  check_layers(check, p.layers, use);
  if (!check.ok()) return check.take();
  const auto layers = static_cast<std::int64_t>(p.layers.size());
  check_overlap(check, 2 + layers * kLayerViews, [&](std::int64_t i) -> Operand {
    if (i == 0) return {"blocks", &p.blocks};
    if (i == 1) return {"num_accepted", &p.num_accepted};
    return layer_operand(p.layers, use, i - 2);
  });
  return check.take();
}

}  // namespace recoverssm
