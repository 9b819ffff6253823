// Looking at a session, and the rule for prefix hits.
#include <algorithm>

#include "session/state.h"

namespace recoverssm {

const SessionConfig& Session::config() const { return state_->config; }
const SessionCounters& Session::counters() const { return state_->counters; }
std::int32_t Session::requests() const { return static_cast<std::int32_t>(state_->requests.size()); }
std::int32_t Session::open_steps() const { return static_cast<std::int32_t>(state_->steps.size()); }
std::int32_t Session::prefixes() const { return static_cast<std::int32_t>(state_->prefixes.size()); }

namespace {

std::size_t checked_index(SessionCounters& counters, const char* call, const char* argument, std::int64_t index,
                          std::size_t count) {
  return counted(counters, [&] {
    if (index >= 0 && index < static_cast<std::int64_t>(count)) return static_cast<std::size_t>(index);
    fail(ErrorKind::out_of_range, call, argument, text(index), text("an index below ", count));
  });
}

}  // namespace

std::int32_t Session::free_blocks(std::int32_t group) const {
  return state_->blocks[checked_index(state_->counters, "free_blocks", "group", group, state_->groups())].free_count();
}

BlockTag Session::block_tag(std::int32_t group, std::int32_t block) const {
  const std::size_t g = checked_index(state_->counters, "block_tag", "group", group, state_->groups());
  const BlockPool& blocks = state_->blocks[g];
  checked_index(state_->counters, "block_tag", "block", block, static_cast<std::size_t>(blocks.size()));
  BlockTag tag = blocks.tag(block);
  tag.layout = state_->layouts[g];
  return tag;
}

const LayerPool& Session::pool(std::int32_t layer) const {
  return state_->pools[checked_index(state_->counters, "pool", "layer", layer, state_->pools.size())];
}

std::int64_t prefix_hit(std::int64_t attention_tokens, std::span<const std::vector<std::int64_t>> groups) {
  if (groups.empty()) return std::max<std::int64_t>(attention_tokens, 0);
  std::int64_t hit = 0;
  for (const std::int64_t tokens : groups[0]) {
    if (tokens > attention_tokens || tokens <= hit) continue;
    const bool everywhere =
        std::ranges::all_of(groups, [&](const auto& group) { return std::ranges::find(group, tokens) != group.end(); });
    if (everywhere) hit = tokens;
  }
  return hit;
}

}  // namespace recoverssm
