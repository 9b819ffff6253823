// Folding waiting records outside a forward: before states are moved, copied or looked at.
#include <algorithm>

#include "session/plan.h"

namespace recoverssm {

Columns folded_columns(const SessionState& state, const Request& request, std::size_t g, std::vector<std::int32_t>& dropped) {
  Columns columns = request.groups[g];
  const auto mark = [&](std::int64_t column) {
    if (Column* const found = columns.find(column)) found->boundary = true;
  };
  if (const auto& B = state.block_size(g); B && request.waiting > 0) {
    const AlignedPlan plan = aligned_plan(request.tokens - request.waiting, request.waiting, *B);
    columns.running = plan.final_column;
    mark(plan.boundary_column);
  }
  prune(state.config, columns, [&](std::int32_t block) { dropped.push_back(block); });
  return columns;
}

std::int64_t free_after(const BlockPool& blocks, std::vector<std::int32_t>& dropped) {
  std::ranges::sort(dropped);
  std::int64_t free = blocks.free_count();
  for (auto at = dropped.begin(); at != dropped.end();) {
    const auto next = std::upper_bound(at, dropped.end(), *at);
    free += next - at == blocks.tag(*at).references ? 1 : 0;
    at = next;
  }
  return free;
}

namespace {

// Windows of which nothing is kept: their records are dropped. commit leaves such a row alone.
void drop_records(SessionState& state, const std::vector<Request*>& requests, Context& context) {
  std::vector<std::int32_t> none(requests.size()), blocks;
  for (std::size_t g = 0; g < state.groups(); ++g) {
    blocks.clear();
    for (const Request* request : requests) blocks.push_back(request->groups[g].running_block(state.config.null_block_id));
    std::vector<Layer> layers;
    for (const Layer& layer : state.group_layers[g]) {
      if (layer.pending.present()) layers.push_back(layer);
    }
    MaterializeParams params{.layers = layers, .null_block_id = state.config.null_block_id};
    Upload indices;
    indices.add(blocks, params.blocks);
    indices.add(none, params.num_accepted);
    indices.send(state.slots);
    run_op(state, context, recoverssm::materialize, params);
  }
}

}  // namespace

// commit rather than materialize: it also compacts rolled lines and writes a boundary inside the kept tokens.
void fold(SessionState& state, std::span<const RequestId> requests, Context& context) {
  std::vector<CommitRow> rows;
  std::vector<Request*> empty;
  for (const RequestId id : requests) {
    Request& request = state.requests.at(id);
    if (!request.records_wait) continue;
    const bool listed =
        std::ranges::find(rows, &request, &CommitRow::request) != rows.end() || std::ranges::find(empty, &request) != empty.end();
    if (listed) continue;
    if (request.waiting == 0) {
      empty.push_back(&request);
    } else {
      rows.push_back({&request, request.tokens - request.waiting, request.waiting, request.waiting, request.written_by});
    }
  }
  if (!empty.empty()) drop_records(state, empty, context);
  commit_rows(state, rows, context);
  state.counters.folded_rows += static_cast<std::int64_t>(rows.size());
  const auto folded = [&](Request& request) {
    request.records_wait = false, request.waiting = 0;
    state_is_real(state, request, request.written_by);
    prune(state, request);
  };
  for (Request* request : empty) folded(*request);
  for (const CommitRow& row : rows) folded(*row.request);
}

void Session::materialize(std::span<const RequestId> requests, Context& context) {
  SessionState& state = *state_;
  counted(state.counters, [&] {
    require_place(state, "materialize", context);
    for (const RequestId id : requests) require_live("materialize", id, idle_request(state, "materialize", id));
    fold(state, requests, context);
  });
}

}  // namespace recoverssm
