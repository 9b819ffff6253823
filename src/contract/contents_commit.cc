// Index contents of commit, materialize and align_move.
#include <algorithm>

#include "contract/contents.h"
#include "contract/contents_rows.h"
#include "contract/layers.h"

namespace recoverssm {
namespace {

// Ids are checked against the smallest pool among the layers that use them; without layers nothing is addressed.
constexpr std::int64_t kNoPool = std::int64_t{INT32_MAX} + 1;

enum CommitRole : std::uint8_t { kSource, kFinal, kBoundary };

const char* argument_of(std::uint8_t role) {
  switch (role) {
    case kSource:
      return "state_indices";
    case kFinal:
      return "final_indices";
    default:
      return "boundary_indices";
  }
}

// One cache group of a commit: its plan and what its layers ask of it.
struct GroupContents {
  Name name;
  const CommitGroup& group;
  std::int64_t capacity;
  std::int32_t null_block_id;
  std::int64_t blocks;
  bool lazy;  // a layer has pending counts: the source's is cleared

  std::int64_t rows() const { return group.state_indices.shape[0]; }
  bool live(std::int64_t i) const {
    return !is_dead_commit(index_at(group.commit_len, i), index_at(group.state_indices, i), index_at(group.final_indices, i),
                           null_block_id);
  }
};

// The uses of a live row's blocks. `first_row` keeps the rows of two groups apart.
void add_uses(const GroupContents& g, std::int64_t i, std::int64_t first_row, ContentsMemory& memory) {
  const std::int64_t row = first_row + i;
  memory.add({.block = index_at(g.group.state_indices, i), .role = kSource, .claims = g.lazy, .row = row});
  memory.add({.block = index_at(g.group.final_indices, i), .role = kFinal, .row = row});
  const std::int32_t boundary = index_at(g.group.boundary_indices, i);
  if (!is_null(boundary, g.null_block_id)) memory.add({.block = boundary, .role = kBoundary, .row = row});
}

void check_commit_row(Check& check, const GroupContents& g, std::int64_t i) {
  const std::int32_t kept = index_at(g.group.commit_len, i);
  if (kept < 0 || kept > g.capacity) {
    return check.out_of_range(g.name.dot("commit_len"), text("row ", i, " has ", kept), text("0..window_capacity = ", g.capacity));
  }
  const std::int32_t source = index_at(g.group.state_indices, i), final = index_at(g.group.final_indices, i);
  if (!check_block(check, g.name.dot("state_indices"), i, source, g.blocks)) return;
  if (!check_block(check, g.name.dot("final_indices"), i, final, g.blocks)) return;
  const std::int32_t boundary = index_at(g.group.boundary_indices, i);
  if (is_null(boundary, g.null_block_id)) return;
  if (!check_block(check, g.name.dot("boundary_indices"), i, boundary, g.blocks)) return;
  const std::int32_t boundary_len = index_at(g.group.boundary_len, i);
  if (boundary_len < 1 || boundary_len > kept) {
    check.out_of_range(g.name.dot("boundary_len"), text("row ", i, " has ", boundary_len, " beside boundary block ", boundary),
                       text("1..commit_len = ", kept));
  }
}

// A block that a live row writes belongs to no other live row.
void check_commit_blocks(Check& check, const GroupContents& g, ContentsMemory memory) {
  for (std::int64_t i = 0; i < g.rows(); ++i) {
    if (g.live(i)) add_uses(g, i, 0, memory);
  }
  const Conflict conflict = find_conflict(memory.uses());
  if (conflict.first == nullptr) return;
  const BlockUse& writer = *conflict.first;
  const BlockUse& other = *conflict.second;
  check.out_of_range(
      g.name.dot(argument_of(writer.role)),
      text("row ", writer.row, " writes block ", writer.block, ", which row ", other.row, " has in ", argument_of(other.role)),
      "a written block to belong to one live row");
}

// The same for two groups, each of which passed, whose layers lie in the same pages.
void check_shared_pages(Check& check, const GroupContents& g, const GroupContents& h, ContentsMemory memory) {
  for (std::int64_t i = 0; i < g.rows(); ++i) {
    if (g.live(i)) add_uses(g, i, 0, memory);
  }
  for (std::int64_t i = 0; i < h.rows(); ++i) {
    if (h.live(i)) add_uses(h, i, g.rows(), memory);
  }
  const Conflict conflict = find_conflict(memory.uses());
  if (conflict.first == nullptr) return;
  const auto group_of = [&](const BlockUse& use) -> const GroupContents& { return use.row < g.rows() ? g : h; };
  const auto row_of = [&](const BlockUse& use) { return use.row < g.rows() ? use.row : use.row - g.rows(); };
  const BlockUse& writer = *conflict.first;
  const BlockUse& other = *conflict.second;
  check.out_of_range(group_of(writer).name.dot(argument_of(writer.role)),
                     text("row ", row_of(writer), " writes block ", writer.block, ", which row ", row_of(other), " of ",
                          group_of(other).name.text(), " has in ", argument_of(other.role), ", in the same pages"),
                     "a written block to belong to one live row");
}

bool groups_share(std::span<const Layer> layers, std::int64_t g, std::int64_t h) {
  for (const Layer& a : layers) {
    for (const Layer& b : layers) {
      if (a.group == g && b.group == h && layers_share(a, b)) return true;
    }
  }
  return false;
}

void check_commit_pending(Check& check, const GroupContents& g, const Name& pending_name, const TensorView& pending) {
  for (std::int64_t i = 0; check.ok() && i < g.rows(); ++i) {
    if (!g.live(i)) continue;
    const std::int32_t source = index_at(g.group.state_indices, i), final = index_at(g.group.final_indices, i);
    const std::int32_t waiting = index_at(pending, source);
    if (!check_pending_count(check, pending_name, i, source, waiting, g.capacity)) return;
    if (waiting == 0 && final != source) {
      check.bad_state(
          pending_name,
          text("0 in block ", source, " of row ", i, " (", g.name.text(), ": final_indices ", final, " is another block)"),
          "records that wait, or a final block that is the source");
    }
  }
}

}  // namespace

std::size_t contents_workspace_size(const CommitParams& p) {
  // Two groups at a time, where there are two.
  std::int64_t most = 0, second = 0;
  for (const CommitGroup& group : p.groups) {
    const std::int64_t rows = group.state_indices.shape[0];
    second = std::max(second, std::min(most, rows));
    most = std::max(most, rows);
  }
  return ContentsMemory::bytes(times(most + second, 3), 0);
}

Status validate_contents(const CommitParams& p, Workspace workspace) {
  Check check("commit");
  const auto groups = static_cast<std::int64_t>(p.groups.size());
  const auto layers = static_cast<std::int64_t>(p.layers.size());
  const auto contents_of = [&](std::int64_t index) {
    GroupContents g{
        Name("groups").at(index), p.groups[static_cast<std::size_t>(index)], p.window_capacity, p.null_block_id, kNoPool, false};
    for (const Layer& layer : p.layers) {
      if (layer.group != index) continue;
      g.blocks = std::min(g.blocks, layer_blocks(layer));
      g.lazy = g.lazy || layer.pending.present();
    }
    return g;
  };
  for (std::int64_t index = 0; check.ok() && index < groups; ++index) {
    const GroupContents g = contents_of(index);
    for (std::int64_t i = 0; check.ok() && i < g.rows(); ++i) {
      if (g.live(i)) check_commit_row(check, g, i);
    }
    if (check.ok()) check_commit_blocks(check, g, ContentsMemory(workspace));
    for (std::int64_t l = 0; check.ok() && l < layers; ++l) {
      const Layer& layer = p.layers[static_cast<std::size_t>(l)];
      if (layer.group != index || !layer.pending.present()) continue;
      check_commit_pending(check, g, Name("layers").at(l).dot("pending"), layer.pending);
    }
  }
  for (std::int64_t g = 0; check.ok() && g < groups; ++g) {
    for (std::int64_t h = g + 1; check.ok() && h < groups; ++h) {
      if (groups_share(p.layers, g, h)) check_shared_pages(check, contents_of(g), contents_of(h), ContentsMemory(workspace));
    }
  }
  return check.take();
}

std::size_t contents_workspace_size(const MaterializeParams& p) { return ContentsMemory::bytes(p.blocks.shape[0], 0); }

Status validate_contents(const MaterializeParams& p, Workspace workspace) {
  Check check("materialize");
  ContentsMemory memory(workspace);
  const auto layers = static_cast<std::int64_t>(p.layers.size());
  std::int64_t blocks = kNoPool;
  for (const Layer& layer : p.layers) blocks = std::min(blocks, layer_blocks(layer));
  for (std::int64_t i = 0; check.ok() && i < p.blocks.shape[0]; ++i) {
    const std::int32_t block = index_at(p.blocks, i);
    if (is_null(block, p.null_block_id)) continue;
    if (!check_block(check, "blocks", i, block, blocks)) break;
    memory.add({.block = block, .row = i});
    for (std::int64_t l = 0; check.ok() && l < layers; ++l) {
      const Layer& layer = p.layers[static_cast<std::size_t>(l)];
      const std::int64_t capacity = layer_capacity(layer);
      if (!check_count(check, "num_accepted", i, index_at(p.num_accepted, i), capacity)) break;
      check_pending_count(check, Name("layers").at(l).dot("pending"), i, block, index_at(layer.pending, block), capacity);
    }
  }
  if (!check.ok()) return check.take();
  const Conflict conflict = find_conflict(memory.uses());
  if (conflict.first != nullptr) {
    const auto [low, high] = std::minmax(conflict.first->row, conflict.second->row);
    check.out_of_range("blocks", text("block ", conflict.first->block, " is listed as ", low, " and ", high),
                       "each live block once");
  }
  return check.take();
}

std::size_t contents_workspace_size(const AlignMoveParams& p) { return ContentsMemory::bytes(times(p.from.shape[0], 2), 0); }

Status validate_contents(const AlignMoveParams& p, Workspace workspace) {
  Check check("align_move");
  ContentsMemory memory(workspace);
  const auto layers = static_cast<std::int64_t>(p.layers.size());
  std::int64_t blocks = kNoPool;
  for (const Layer& layer : p.layers) blocks = std::min(blocks, layer_blocks(layer));
  for (std::int64_t i = 0; check.ok() && i < p.from.shape[0]; ++i) {
    const std::int32_t from = index_at(p.from, i), to = index_at(p.to, i);
    const bool from_null = is_null(from, p.null_block_id), to_null = is_null(to, p.null_block_id);
    // Rows that do nothing still own their block.
    if (!from_null) memory.add({.block = from, .claims = false, .row = i});
    if (!to_null) memory.add({.block = to, .row = i});
    if (from_null || to_null) continue;
    if (!check_block(check, "from", i, from, blocks) || !check_block(check, "to", i, to, blocks) || from == to) continue;
    for (std::int64_t l = 0; check.ok() && l < layers; ++l) {
      const Layer& layer = p.layers[static_cast<std::size_t>(l)];
      if (!layer.pending.present()) continue;
      const std::int32_t waiting = index_at(layer.pending, from);
      const Name pending = Name("layers").at(l).dot("pending");
      if (waiting > 0) {
        check.bad_state(pending, text(waiting, " in block ", from, ", from of row ", i), "no records that wait in a block to move");
      } else if (waiting < 0) {
        check.out_of_range(pending, text(waiting, " in block ", from, ", from of row ", i), "at least 0");
      }
    }
  }
  if (!check.ok()) return check.take();
  const Conflict conflict = find_conflict(memory.uses());
  if (conflict.first != nullptr) {
    check.out_of_range("to",
                       text("row ", conflict.first->row, " has block ", conflict.first->block, ", which row ", conflict.second->row,
                            " has in from or to"),
                       "a block of no other row");
  }
  return check.take();
}

}  // namespace recoverssm
