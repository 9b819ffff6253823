// Bytes into inspect_checkpoint and Session::restore. What is refused must have written nothing; what is accepted must come out again as
// it went in. The mutator starts from a real checkpoint and mostly puts length and checksum right, so that what lies behind them is reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "session/checkpoint_format.h"
#include "session/tiny.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace recoverssm;
using session_tests::Tiny;
using Bytes = std::vector<std::byte>;

void demand(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void seal(std::span<std::byte> bytes) {
  const std::size_t end = bytes.size() - sizeof(std::uint64_t);
  write_at(bytes, offsetof(CheckpointHeader, bytes), std::uint64_t{bytes.size()});
  write_at(bytes, end, checkpoint_checksum(bytes.first(end)));
}

const Bytes& real_checkpoint() {
  static const Bytes bytes = [] {
    Tiny model({});
    Session session(model.config());
    Context context;
    const RequestId request = session.admit();
    const StepRow row{request, RowKind::prefill, 5, -1};
    const StepId step = session.open_step({&row, 1}, context);
    model.forward(session, step, 5, 1, context);
    session.commit(step, {}, context);
    return session.export_checkpoint(request, 5, 9, context);
  }();
  return bytes;
}

// Kept between inputs: a session that a refused or a taken back restore changes would fail at the next one, too.
struct Importer {
  Tiny model{{.two_groups = true, .lazy = true, .block_size = 4, .blocks = 4}};
  Session session{model.config()};
  RequestId request = session.admit();
  Context context;

  Importer() {
    for (std::int32_t layer = 0; layer < Tiny::kLayers; ++layer) {
      for (const TensorView* view : tensors(layer)) std::memset(view->data, 0x11, bytes_of(*view));
    }
  }
  std::vector<const TensorView*> tensors(std::int32_t layer) const {
    const LayerPool& pool = session.pool(layer);
    std::vector<const TensorView*> all;
    for (const TensorView* view : {&pool.line, &pool.state}) {
      if (view->present()) all.push_back(view);
    }
    return all;
  }
  static std::size_t bytes_of(const TensorView& view) { return static_cast<std::size_t>(view.elements() * size_of(view.dtype)); }
  Bytes pools() const {
    Bytes all;
    for (std::int32_t layer = 0; layer < Tiny::kLayers; ++layer) {
      for (const TensorView* view : tensors(layer)) {
        const auto* const data = static_cast<const std::byte*>(view->data);
        all.insert(all.end(), data, data + bytes_of(*view));
      }
    }
    return all;
  }
  void demand_empty() const {
    const RequestInfo info = session.info(request);
    demand(info.phase == Phase::empty && info.tokens == 0 && info.open_step == 0, "the request is empty");
    demand(session.free_blocks(0) == 3 && session.free_blocks(1) == 3, "all blocks are free");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Importer target;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  std::optional<CheckpointInfo> info;
  try {
    info = inspect_checkpoint(bytes);
    demand(info->bytes == static_cast<std::int64_t>(size), "bytes of a checkpoint");
  } catch (const Error& error) {
    demand(error.kind() == ErrorKind::invalid_argument || error.kind() == ErrorKind::unsupported, "kind of a refusal");
  }
  // The count and the tag it wants, so that they are not what it's refused for.
  std::int64_t tokens = 1;
  std::uint64_t tag = 0;
  if (size >= sizeof(CheckpointHeader)) {
    const auto header = read_at<CheckpointHeader>(bytes, 0);
    tokens = header.tokens, tag = header.tag;
  }
  const Bytes before = target.pools();
  try {
    target.session.restore(target.request, bytes, tokens, tag);
  } catch (const Error&) {
    demand(target.pools() == before, "a refused restore writes nothing");
    target.demand_empty();
    return 0;
  }
  demand(info.has_value(), "what restore takes, inspect takes");
  const RequestInfo live = target.session.info(target.request);
  demand(live.phase == Phase::live && live.tokens == tokens && live.waiting == 0, "a restored request");
  Bytes again = target.session.export_checkpoint(target.request, tokens, tag, target.context);
  demand(again.size() == size, "the size of what comes out");
  std::memcpy(&again[offsetof(CheckpointHeader, owner)], data + offsetof(CheckpointHeader, owner), 16);  // and step
  seal(again);
  demand(std::memcmp(again.data(), data, size) == 0, "what goes in comes out");
  target.session.preempt(target.request);
  target.demand_empty();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  const Bytes& real = real_checkpoint();
  if (seed % 16 == 0 && real.size() <= max_size) {
    std::memcpy(data, real.data(), real.size());
    size = real.size();
  }
  // Mostly small changes that keep the length: a field of the header or of the layers.
  if (seed % 4 != 1 && size > 16) {
    const std::size_t table = std::min(size, sizeof(CheckpointHeader) + 4 * sizeof(CheckpointLayer));
    const std::size_t width = std::size_t{1} << (seed / 16 % 4), at = seed / 64 % (table - 8);
    LLVMFuzzerMutate(data + at, width, width);
  } else {
    size = LLVMFuzzerMutate(data, size, max_size);
  }
  if (seed % 8 != 3 && size >= sizeof(CheckpointHeader) + sizeof(std::uint64_t)) {
    if (seed % 32 != 7) std::memcpy(data, kCheckpointMagic, sizeof kCheckpointMagic);
    seal({reinterpret_cast<std::byte*>(data), size});
  }
  return size;
}
