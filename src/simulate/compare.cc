// What is compared with the plain run, and what must hold beside it.
#include <algorithm>

#include "simulate/round.h"

namespace recoverssm::simulate {

namespace {

const char* name_of(Phase phase) { return phase == Phase::empty ? "empty" : phase == Phase::live ? "live" : "dead"; }

// The first W-1 positions of a line [1, cols, C], as [positions, C].
Bytes history_of(const TensorView& line, std::int64_t positions) {
  const std::int64_t size = size_of(line.dtype), channels = line.shape[2];
  const auto* const data = static_cast<const std::byte*>(line.data);
  Bytes history(static_cast<std::size_t>(positions * channels * size));
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::byte* const at = data + (p * line.stride[1] + c * line.stride[2]) * size;
      std::memcpy(history.data() + (p * channels + c) * size, at, static_cast<std::size_t>(size));
    }
  }
  return history;
}

}  // namespace

bool Round::same(std::span<const std::byte> got, std::span<const std::byte> want) {
  if (setup_.flipped_comparison != comparisons_++) return std::ranges::equal(got, want);
  Bytes flipped(got.begin(), got.end());
  flipped[below(flipped.size())] ^= static_cast<std::byte>(1 << random_.between(0, 7));
  return std::ranges::equal(flipped, want);
}

void Round::compare_info(const Request& request) {
  const RequestInfo info = session_->info(request.id);
  expect(info.phase == request.phase, "request ", request.id, " is ", name_of(info.phase), ", it must be ", name_of(request.phase));
  expect(info.tokens == request.tokens(), "request ", request.id, " has ", info.tokens, " tokens, it must have ", request.tokens());
  expect(info.open_step == request.step, "request ", request.id, " has a row in step ", info.open_step);
  expect(info.waiting == request.waiting, "request ", request.id, ": ", info.waiting, " records wait, not ", request.waiting);
  expect(info.blocks.size() == setup_.session.groups.size(), "info: a block a group");
  for (std::size_t g = 0; g < info.blocks.size(); ++g) {
    const std::int32_t null = setup_.session.null_block_id, block = info.blocks[g];
    if (request.phase != Phase::live) {
      expect(block == null, "request ", request.id, " has no state but block ", block);
      continue;
    }
    expect(block > null && block < setup_.session.groups[g].blocks, "request ", request.id, " has block ", block);
    if (!request.idle() || request.records_wait) continue;
    const BlockTag tag = session_->block_tag(static_cast<std::int32_t>(g), block);
    expect(tag.tokens == request.tokens(), "request ", request.id, ": block ", block, " is tagged with ", tag.tokens,
           " tokens, not ", request.tokens());
    expect(tag.references >= 1, "request ", request.id, ": block ", block, " is free");
  }
}

void Round::compare_pool(const Session& session, const Device& device, const std::vector<std::int32_t>& blocks,
                         const Memory& memory, const std::string& what) {
  const auto block_of = [](const TensorView& view, std::int64_t block) {
    TensorView one = view;
    one.data = static_cast<std::byte*>(view.data) + block * view.stride[0] * size_of(view.dtype);
    one.shape[0] = 1;
    return one;
  };
  Bytes bytes;
  for (std::size_t l = 0; l < setup_.layers.size(); ++l) {
    const LayerModel& layer = setup_.layers[l];
    const LayerPool& pool = session.pool(static_cast<std::int32_t>(l));
    const std::int64_t block = blocks[static_cast<std::size_t>(session.config().layers[l].group)];
    if (layer.rule()) {
      const auto* const state = static_cast<const std::byte*>(device.read(block_of(pool.state, block), bytes).data);
      expect(same({state, memory.layers[l].state.size()}, memory.layers[l].state), what, ": state of layer ", l);
    }
    if (layer.config.W > 0) {
      expect(same(history_of(device.read(block_of(pool.line, block), bytes), layer.history()), memory.layers[l].history), what,
             ": conv history of layer ", l);
    }
    ++counts_.states_compared;
  }
}

void Round::compare_state(const Request& request) {
  if (request.phase != Phase::live || request.records_wait) return;
  compare_pool(*session_, device_, session_->info(request.id).blocks, request.memory,
               said("request ", request.id, " after ", request.tokens(), " tokens"));
}

// The current count unless records wait; boundaries that were written, in all groups: at least the latest ones, and no others.
void Round::compare_exportable(const Request& request) {
  const std::vector<std::int64_t> counts = session_->exportable(request.id);
  const auto text = [&](const char* problem, std::int64_t tokens) {
    return said("request ", request.id, " with ", request.tokens(), " tokens: ", problem, " ", tokens);
  };
  if (!request.idle() || request.phase != Phase::live)
    return expect(counts.empty(), text("exportable without a state:", counts.size()));
  expect(std::ranges::is_sorted(counts) && std::ranges::adjacent_find(counts) == counts.end(),
         text("exportable is not ascending", 0));
  const auto listed = [&](std::int64_t tokens) { return std::ranges::find(counts, tokens) != counts.end(); };
  const auto written = [&](std::int64_t tokens) {
    return std::ranges::all_of(request.boundaries, [&](const auto& list) { return std::ranges::find(list, tokens) != list.end(); });
  };
  if (!request.records_wait) expect(listed(request.tokens()), text("not exportable:", request.tokens()));
  if (request.waiting > 0) expect(!listed(request.tokens()), text("exportable while records wait:", request.tokens()));
  for (const std::int64_t tokens : counts) {
    if (tokens == request.tokens()) continue;
    expect(written(tokens), text("exportable, though no state was written there:", tokens));
    expect(tokens <= request.tokens() - request.waiting, text("exportable while its records wait:", tokens));
  }
  // The latest boundaries of a group are kept; a count is exportable if it is kept in every group.
  std::vector<std::int64_t> kept;
  for (std::size_t g = 0; setup_.align() && g < request.boundaries.size(); ++g) {
    std::vector<std::int64_t> latest;
    for (const std::int64_t tokens : request.boundaries[g]) {
      if (tokens <= request.tokens() - request.waiting) latest.push_back(tokens);
    }
    const auto most = static_cast<std::size_t>(setup_.session.kept_boundaries);
    if (latest.size() > most) latest.erase(latest.begin(), latest.end() - static_cast<std::ptrdiff_t>(most));
    if (g == 0) {
      kept = latest;
    } else {
      std::erase_if(kept, [&](std::int64_t tokens) { return std::ranges::find(latest, tokens) == latest.end(); });
    }
  }
  for (const std::int64_t tokens : kept) {
    if (tokens < request.tokens()) expect(listed(tokens), text("a kept boundary is not exportable:", tokens));
  }
  expect(std::ssize(counts) <= std::int64_t{setup_.session.kept_boundaries} + 2,
         text("more is kept than configured:", std::ssize(counts)));
}

void Round::compare_checkpoint(const Kept& kept, const std::string& what) {
  const CheckpointInfo info = inspect_checkpoint(kept.checkpoint);
  expect(info.version == kCheckpointVersion && info.tokens == kept.tokens() && info.tag == kept.tag &&
             info.layers == static_cast<std::int32_t>(setup_.layers.size()) &&
             info.bytes == static_cast<std::int64_t>(kept.checkpoint.size()),
         what, ": inspect_checkpoint");
  viewer_->restore(viewer_request_, kept.checkpoint, kept.tokens(), kept.tag);
  compare_pool(*viewer_, Device(Backend::cpu), viewer_->info(viewer_request_).blocks, kept.memory, what);
  viewer_->preempt(viewer_request_);
}

void Round::compare_counters() {
  const SessionCounters& c = session_->counters();
  const struct {
    const char* name;
    std::int64_t session, scheduler;
  } pairs[] = {{"steps_opened", c.steps_opened, counts_.steps_opened},
               {"steps_committed", c.steps_committed, counts_.steps_committed},
               {"steps_abandoned", c.steps_abandoned, counts_.steps_abandoned},
               {"prefill_rows", c.prefill_rows, counts_.prefill_rows},
               {"decode_rows", c.decode_rows, counts_.decode_rows},
               {"window_rows", c.window_rows, counts_.window_rows},
               {"prefill_tokens", c.prefill_tokens, counts_.prefill_tokens},
               {"decode_tokens", c.decode_tokens, counts_.decode_tokens},
               {"verified_tokens", c.verified_tokens, counts_.verified_tokens},
               {"kept_tokens", c.kept_tokens, counts_.kept_tokens},
               {"dead_rows", c.dead_rows, counts_.died},
               {"refused_calls", c.refused_calls, counts_.refused + counts_.refused_for_blocks}};
  for (const auto& pair : pairs) {
    expect(pair.session == pair.scheduler, "counter ", pair.name, ": ", pair.session, ", the scheduler counted ", pair.scheduler);
  }
  std::int64_t kinds = 0;
  for (const std::int64_t count : c.refused_by_kind) kinds += count;
  expect(kinds == c.refused_calls, "counter refused_by_kind does not add up to refused_calls");
  counts_.grouped_commits = c.grouped_calls;
  counts_.per_group_commits = c.per_group_calls;
  // Which path ran is known beforehand.
  bool one_size = true;
  for (const GroupConfig& group : setup_.session.groups)
    one_size = one_size && group.block_size == setup_.session.groups[0].block_size;
  expect(one_size ? c.per_group_calls == 0 : c.grouped_calls == 0, "commits of all groups at once, or group by group");
}

// Nothing is left, and nothing was written that is not the session's.
void Round::compare_end() {
  expect(session_->requests() == 0, session_->requests(), " requests are left");
  expect(session_->open_steps() == 0, session_->open_steps(), " steps are left");
  expect(session_->prefixes() == 0, session_->prefixes(), " prefixes are left");
  for (std::size_t g = 0; g < setup_.session.groups.size(); ++g) {
    const auto group = static_cast<std::int32_t>(g);
    const std::int32_t first = setup_.session.null_block_id + 1, blocks = setup_.session.groups[g].blocks;
    expect(session_->free_blocks(group) == blocks - first, "group ", g, ": ", session_->free_blocks(group), " blocks are free of ",
           blocks - first);
    for (std::int32_t b = 0; b < blocks; ++b) {
      const BlockTag tag = session_->block_tag(group, b);
      expect(tag.references == 0, "group ", g, ": block ", b, " is still held");
      expect(b >= first || tag.owner == 0, "group ", g, ": null block ", b, " was handed out");
    }
  }
  if (pools_) expect(pools_->damaged_bytes() == 0, pools_->damaged_bytes(), " bytes beside the pools' tensors were written");
}

}  // namespace recoverssm::simulate
