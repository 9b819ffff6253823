// export_checkpoint and restore: states and histories between blocks and bytes.
#include <algorithm>

#include "session/checkpoint_format.h"
#include "session/config.h"
#include "session/copy.h"
#include "session/state.h"

namespace recoverssm {
namespace {

std::byte* at_block(const TensorView& view, std::int32_t block) {
  return static_cast<std::byte*>(view.data) + block * view.stride[0] * size_of(view.dtype);
}

// The history of one block, position by position: lines may have any strides. `copy(line bytes, dense bytes, count)` for runs of
// `count` bytes.
template <class Copy>
void walk_history(const TensorView& line, std::int64_t history, std::int32_t block, std::byte* dense, Copy copy) {
  const std::int64_t size = size_of(line.dtype), channels = line.shape[2];
  const bool contiguous = line.stride[2] == 1 || channels == 1;
  std::byte* const base = at_block(line, block);
  for (std::int64_t p = 0; p < history; ++p) {
    std::byte* const position = base + p * line.stride[1] * size;
    if (contiguous) {
      copy(position, dense, channels * size);
      dense += channels * size;
      continue;
    }
    for (std::int64_t c = 0; c < channels; ++c, dense += size) copy(position + c * line.stride[2] * size, dense, size);
  }
}

// One layer's part of a checkpoint. Returns where the next one begins.
template <class Copy>
std::byte* walk_layer(const LayerConfig& layer, const LayerPool& pool, std::int32_t block, std::byte* dense, Copy copy) {
  if (pool.line.present()) walk_history(pool.line, history_of(layer), block, dense, copy);
  dense += history_bytes(layer);
  if (!pool.state.present()) return dense;
  const std::int64_t bytes = std::int64_t{layer.HV} * layer.V * layer.K * size_of(layer.state);
  copy(at_block(pool.state, block), dense, bytes);
  return dense + bytes;
}

void copy_out(const std::byte* pool, std::byte* dense, std::int64_t bytes) {
  std::memcpy(dense, pool, static_cast<std::size_t>(bytes));
}
void copy_in(std::byte* pool, const std::byte* dense, std::int64_t bytes) {
  std::memcpy(pool, dense, static_cast<std::size_t>(bytes));
}

void check_layers(const SessionState& state, std::span<const std::byte> bytes, const CheckpointInfo& info) {
  const auto& layers = state.config.layers;
  if (info.layers != static_cast<std::int32_t>(layers.size())) {
    fail(ErrorKind::invalid_argument, "restore", "checkpoint.layers", text(info.layers), text(layers.size()));
  }
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto got = read_at<CheckpointLayer>(bytes, sizeof(CheckpointHeader) + l * sizeof(CheckpointLayer));
    const CheckpointLayer want = checkpoint_layer(layers[l]);
    const auto compare = [&](const char* field, std::int64_t g, std::int64_t w) {
      if (g != w) fail(ErrorKind::invalid_argument, "restore", text("checkpoint.layers[", l, "].", field), text(g), text(w));
    };
    compare("kind", got.kind, want.kind);
    if (std::memcmp(got.layout, want.layout, sizeof got.layout) != 0) {
      const std::string layout(got.layout, strnlen(got.layout, sizeof got.layout));
      fail(ErrorKind::invalid_argument, "restore", text("checkpoint.layers[", l, "].layout"), '"' + layout + '"',
           text('"', layout_of(layers[l]), '"'));
    }
    compare("activation", got.activation, want.activation);
    compare("state", got.state, want.state);
    compare("reserved", got.reserved, want.reserved);
    compare("history", got.history, want.history);
    compare("channels", got.channels, want.channels);
    compare("HV", got.HV, want.HV);
    compare("V", got.V, want.V);
    compare("K", got.K, want.K);
  }
  const std::int64_t bytes_wanted = session_sizes(state.config).checkpoint;
  if (info.bytes != bytes_wanted) {
    fail(ErrorKind::invalid_argument, "restore", "checkpoint", text(info.bytes, " bytes"),
         text(bytes_wanted, ", those of these layers"));
  }
}

}  // namespace

std::vector<std::byte> Session::export_checkpoint(RequestId id, std::int64_t tokens, std::uint64_t tag, Context& context) {
  SessionState& state = *state_;
  return counted(state.counters, [&] {
    Request& request = idle_request(state, "export_checkpoint", id);
    require_live("export_checkpoint", id, request);
    const Source source = source_of_copy(state, "export_checkpoint", id, request, tokens, context);
    const auto& layers = state.config.layers;
    std::vector<std::byte> bytes(static_cast<std::size_t>(session_sizes(state.config).checkpoint));
    CheckpointHeader header{.magic = {},
                            .version = kCheckpointVersion,
                            .layers = static_cast<std::uint32_t>(layers.size()),
                            .bytes = bytes.size(),
                            .tokens = tokens,
                            .tag = tag,
                            .owner = id,
                            .step = state.blocks[0].tag(source.blocks[0]).step};
    std::memcpy(header.magic, kCheckpointMagic, sizeof header.magic);
    write_at(bytes, 0, header);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      write_at(bytes, sizeof header + l * sizeof(CheckpointLayer), checkpoint_layer(layers[l]));
    }
    std::byte* payload = bytes.data() + sizeof header + layers.size() * sizeof(CheckpointLayer);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      payload = walk_layer(layers[l], state.pools[l], source.blocks[static_cast<std::size_t>(layers[l].group)], payload, copy_out);
    }
    const std::size_t end = bytes.size() - sizeof(std::uint64_t);
    write_at(bytes, end, checkpoint_checksum(std::span(bytes).first(end)));
    return bytes;
  });
}

void Session::restore(RequestId id, std::span<const std::byte> checkpoint, std::int64_t tokens, std::uint64_t tag) {
  constexpr const char* kCall = "restore";
  SessionState& state = *state_;
  counted(state.counters, [&] {
    Request& request = idle_request(state, kCall, id);
    if (request.phase == Phase::live) {
      fail(ErrorKind::bad_state, kCall, "request", text(id, " has a state"), "an empty or dead request");
    }
    const CheckpointInfo info = inspect_checkpoint(checkpoint);
    check_layers(state, checkpoint, info);
    if (info.tokens != tokens || tokens < 1) {
      fail(ErrorKind::invalid_argument, kCall, "checkpoint.tokens", text(info.tokens), text(tokens, " (and at least 1)"));
    }
    if (info.tag != tag) fail(ErrorKind::invalid_argument, kCall, "checkpoint.tag", text(info.tag), text(tag));
    for (std::size_t g = 0; g < state.groups(); ++g) {
      if (state.blocks[g].free_count() > 0) continue;
      fail(ErrorKind::bad_state, kCall, text("groups[", g, "]"), "no free block", "one for the state");
    }
    std::vector<Columns> groups(state.groups());
    for (std::size_t g = 0; g < state.groups(); ++g) {
      const std::int64_t column = column_after(state.block_size(g), tokens);
      groups[g].in_use.reserve(1);
      groups[g].running = column;
    }
    for (std::size_t g = 0; g < state.groups(); ++g) groups[g].add({groups[g].running, state.blocks[g].take(id), false});
    const std::byte* payload = checkpoint.data() + sizeof(CheckpointHeader) + state.layers.size() * sizeof(CheckpointLayer);
    for (std::size_t l = 0; l < state.layers.size(); ++l) {
      const LayerConfig& layer = state.config.layers[l];
      const std::int32_t block = groups[static_cast<std::size_t>(layer.group)].in_use[0].block;
      payload = walk_layer(layer, state.pools[l], block, const_cast<std::byte*>(payload), copy_in);
      const TensorView& pending = state.pools[l].pending;
      if (pending.present()) static_cast<std::int32_t*>(pending.data)[block * pending.stride[0]] = 0;
    }
    request = {.phase = Phase::live, .tokens = tokens, .groups = std::move(groups)};
    state_is_real(state, request, 0);
  });
}

}  // namespace recoverssm
