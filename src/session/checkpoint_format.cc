#include "session/checkpoint_format.h"

#include <bit>

#include "contract/check.h"
#include "session/config.h"

namespace recoverssm {

static_assert(std::endian::native == std::endian::little, "checkpoints are written as they lie in memory");

std::int64_t checkpoint_overhead(std::size_t layers) {
  return static_cast<std::int64_t>(sizeof(CheckpointHeader) + layers * sizeof(CheckpointLayer) + sizeof(std::uint64_t));
}

CheckpointLayer checkpoint_layer(const LayerConfig& layer) {
  CheckpointLayer entry{};
  entry.kind = static_cast<std::uint32_t>(layer.kind);
  entry.activation = static_cast<std::uint32_t>(layer.activation);
  entry.history = history_of(layer), entry.channels = channels_of(layer);
  if (layer.kind == LayerKind::short_conv) return entry;
  entry.state = static_cast<std::uint32_t>(layer.state);
  entry.HV = layer.HV, entry.V = layer.V, entry.K = layer.K;
  const char* const layout = layout_of(layer);
  std::memcpy(entry.layout, layout, std::strlen(layout));
  return entry;
}

// FNV-1a over 64-bit words, then one of the bytes left over (0 to 7), filled up with zeros. Against damage, not against forgery.
std::uint64_t checkpoint_checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3U;
    hash ^= hash >> 32U;  // a multiplication carries upwards only
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) mix(read_at<std::uint64_t>(bytes, at));
  std::uint64_t last = 0;
  if (at < bytes.size()) std::memcpy(&last, bytes.data() + at, bytes.size() - at);
  mix(last);
  return hash;
}

namespace {

[[noreturn]] void refuse(ErrorKind kind, const char* argument, const std::string& got, const std::string& expected) {
  throw Error({kind, std::string("checkpoint: ") + argument + ": " + got + ", expected " + expected});
}

}  // namespace

CheckpointHeader checkpoint_header(std::span<const std::byte> begin, std::int64_t size) {
  if (size < checkpoint_overhead(0)) {
    refuse(ErrorKind::invalid_argument, "bytes", text(size, " bytes"), text("at least ", checkpoint_overhead(0)));
  }
  const auto header = read_at<CheckpointHeader>(begin, 0);
  if (std::memcmp(header.magic, kCheckpointMagic, sizeof kCheckpointMagic) != 0) {
    refuse(ErrorKind::invalid_argument, "magic", "other bytes", "\"RSSMCKPT\"");
  }
  if (header.version != kCheckpointVersion) {
    refuse(ErrorKind::unsupported, "version", text(header.version), text(kCheckpointVersion));
  }
  if (header.bytes != static_cast<std::uint64_t>(size)) {
    refuse(ErrorKind::invalid_argument, "bytes", text(size, " bytes"), text(header.bytes));
  }
  return header;
}

CheckpointInfo inspect_checkpoint(std::span<const std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  const CheckpointHeader header = checkpoint_header(bytes, size);
  const std::size_t end = bytes.size() - sizeof(std::uint64_t);
  if (read_at<std::uint64_t>(bytes, end) != checkpoint_checksum(bytes.first(end))) {
    refuse(ErrorKind::invalid_argument, "checksum", "that of other bytes", "the checksum of these");
  }
  if (checkpoint_overhead(header.layers) > size || header.layers > INT32_MAX) {
    refuse(ErrorKind::invalid_argument, "layers", text(header.layers), text("as many as fit in ", size, " bytes"));
  }
  bool gdn = false, kda = false;
  for (std::size_t l = 0; l < header.layers; ++l) {
    const auto kind = read_at<CheckpointLayer>(bytes, sizeof header + l * sizeof(CheckpointLayer)).kind;
    gdn = gdn || kind == static_cast<std::uint32_t>(LayerKind::gdn);
    kda = kda || kind == static_cast<std::uint32_t>(LayerKind::kda);
  }
  return {.version = header.version,
          .tokens = header.tokens,
          .tag = header.tag,
          .owner = header.owner,
          .step = header.step,
          .layers = static_cast<std::int32_t>(header.layers),
          .layout = joined_layouts(gdn, kda),
          .bytes = size};
}

}  // namespace recoverssm
