// export_checkpoint and restore: states and histories between blocks and bytes.
#include <algorithm>

#include "session/checkpoint_format.h"
#include "session/config.h"
#include "session/copy.h"
#include "session/state.h"

namespace recoverssm {
namespace {

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
    require_place(state, "export_checkpoint", context);
    Request& request = idle_request(state, "export_checkpoint", id);
    require_live("export_checkpoint", id, request);
    const Source source = source_of_copy(state, "export_checkpoint", id, request, tokens, Use::read, context);
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
      payload = copy_from_block(state.place, layers[l], state.pools[l], source.blocks[static_cast<std::size_t>(layers[l].group)],
                                payload);
    }
    must(state.place.memory().wait(state.place.stream));
    require_no_finding(state, "export_checkpoint");
    const std::size_t end = bytes.size() - sizeof(std::uint64_t);
    write_at(bytes, end, checkpoint_checksum(std::span(bytes).first(end)));
    return bytes;
  });
}

void Session::restore(RequestId id, std::span<const std::byte> checkpoint, std::int64_t tokens, std::uint64_t tag) {
  constexpr const char* kCall = "restore";
  SessionState& state = *state_;
  counted(state.counters, [&] {
    require_no_finding(state, kCall);
    Request& request = idle_request(state, kCall, id);
    if (request.phase == Phase::live) {
      fail(ErrorKind::bad_state, kCall, "request", text(id, " has a state"), "an empty or dead request");
    }
    const CheckpointInfo info = inspect_checkpoint(checkpoint);
    check_layers(state, checkpoint, info);
    if (info.tokens != tokens || tokens < 1 || tokens > kMostTokens) {
      fail(ErrorKind::invalid_argument, kCall, "checkpoint.tokens", text(info.tokens), text(tokens, " (and 1..2^62)"));
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
    try {
      const std::byte* payload = checkpoint.data() + sizeof(CheckpointHeader) + state.layers.size() * sizeof(CheckpointLayer);
      for (std::size_t l = 0; l < state.layers.size(); ++l) {
        const LayerConfig& layer = state.config.layers[l];
        const std::int32_t block = groups[static_cast<std::size_t>(layer.group)].in_use[0].block;
        payload = copy_to_block(state.place, layer, state.pools[l], block, payload);
        clear_pending(state.place, state.pools[l].pending, block);
      }
      must(state.place.memory().wait(state.place.stream));  // the bytes are the caller's again
    } catch (...) {
      for (std::size_t g = 0; g < state.groups(); ++g) state.blocks[g].drop(groups[g].in_use[0].block);
      throw;
    }
    request = {.phase = Phase::live, .tokens = tokens, .groups = std::move(groups)};
    state_is_real(state, request, 0);
  });
}

}  // namespace recoverssm
