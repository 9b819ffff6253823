#include "device/fake_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "contract/overlap.h"
#include "cuda/device.h"
#include "device/fake_cuda.h"

namespace fake_cuda {

bool full = false;
std::int64_t allocated = 0, waits = 0;

namespace {

constexpr std::size_t kArena = std::size_t{1} << 30U, kAlignment = 256, kPage = 4096;

std::size_t rounded(std::size_t bytes, std::size_t to) { return std::max<std::size_t>((bytes + to - 1) / to * to, to); }

// Address space that stays closed but for what is written; sizes by offset, of what is taken and of what is free.
struct Arena {
  std::byte* base = nullptr;
  std::map<std::size_t, std::size_t> taken, free{{0, kArena}};
  std::size_t used = 0;  // nobody has been beyond this
  int opened = 0;
  std::map<std::byte*, std::size_t> shared;

  Arena() {
    void* const memory = mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    base = static_cast<std::byte*>(memory);
  }
  void protect(int how) const {
    if (used > 0 && mprotect(base, used, how) != 0) std::abort();
  }
  bool has(const void* at) const { return at >= base && at < base + kArena; }
};

Arena& arena() {
  static Arena& only = *new Arena;
  return only;
}

const std::pair<std::byte* const, std::size_t>* shared_piece(const void* at) {
  auto& shared = arena().shared;
  auto next = shared.upper_bound(static_cast<std::byte*>(const_cast<void*>(at)));
  if (next == shared.begin()) return nullptr;
  --next;
  return at < next->first + next->second ? &*next : nullptr;
}

// What is on the stream, as far as the host could notice.
struct Pending {
  std::int64_t place = 0;
  std::byte* to = nullptr;  // a copy to the host; null: one from staging memory
  const std::byte* from = nullptr;
  std::vector<std::byte> bytes;
};
std::deque<Pending> pending;
std::int64_t stream_place = 0;

void finish_until(std::int64_t place) {
  for (; !pending.empty() && pending.front().place <= place; pending.pop_front()) {
    const Pending& one = pending.front();
    if (one.to != nullptr) {
      std::memcpy(one.to, one.bytes.data(), one.bytes.size());
    } else if (shared_piece(one.from) != nullptr && std::memcmp(one.from, one.bytes.data(), one.bytes.size()) != 0) {
      ADD_FAILURE() << "staging memory was overwritten before the copy from it was done";
    }
  }
}

recoverssm::Status copy_row(std::byte* to, const std::byte* from, std::size_t width) {
  const Opened opened;
  ++stream_place;
  const std::vector<std::byte> bytes(from, from + width);
  if (!arena().has(to) && shared_piece(to) == nullptr) {
    pending.push_back({stream_place, to, nullptr, bytes});
    return {};
  }
  std::memcpy(to, bytes.data(), width);
  if (shared_piece(from) != nullptr) pending.push_back({stream_place, nullptr, from, bytes});
  return {};
}

recoverssm::Status copy(const recoverssm::RowCopy& c, void*) {
  const Opened opened;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    (void)copy_row(static_cast<std::byte*>(c.to) + row * c.to_pitch, static_cast<const std::byte*>(c.from) + row * c.from_pitch,
                   static_cast<std::size_t>(c.width));
  }
  return {};
}

recoverssm::Status fill(void* to, std::int64_t pitch, std::byte value, std::int64_t width, std::int64_t rows, void*) {
  const Opened opened;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memset(static_cast<std::byte*>(to) + row * pitch, static_cast<int>(value), static_cast<std::size_t>(width));
  }
  return {};
}

// A device lags behind the host: a mark is passed only when some more has been put on the stream, or after a wait.
struct Mark {
  std::int64_t place = 0;
};
constexpr std::int64_t kLag = 3;

bool passed(void* mark) {
  const std::int64_t place = static_cast<Mark*>(mark)->place;
  const bool waited_for = pending.empty() || pending.front().place > place;
  if (!waited_for && stream_place - place < kLag) return false;
  finish_until(place);
  return true;
}

}  // namespace

Opened::Opened() {
  if (arena().opened++ == 0) arena().protect(PROT_READ | PROT_WRITE);
}
Opened::~Opened() {
  if (--arena().opened == 0) arena().protect(PROT_NONE);
}

void* take(std::size_t bytes) {
  if (full) return nullptr;
  Arena& a = arena();
  const std::size_t size = rounded(bytes, kAlignment);
  const auto at = std::ranges::find_if(a.free, [&](const auto& piece) { return piece.second >= size; });
  if (at == a.free.end()) return nullptr;
  const auto [offset, room] = *at;
  a.free.erase(at);
  if (room > size) a.free[offset + size] = room - size;
  a.taken[offset] = size;
  a.used = std::max(a.used, rounded(offset + size, kPage));
  ++allocated;
  const Opened opened;
  std::memset(a.base + offset, 0xFF, size);  // NaN in every float dtype
  return a.base + offset;
}

void give(void* memory) {
  if (memory == nullptr) return;
  Arena& a = arena();
  const auto at = a.taken.find(static_cast<std::size_t>(static_cast<std::byte*>(memory) - a.base));
  if (at == a.taken.end()) {
    ADD_FAILURE() << "what is given back is no device memory";
    return;
  }
  --allocated;
  auto piece = a.free.insert(*at).first;
  a.taken.erase(at);
  if (const auto next = std::next(piece); next != a.free.end() && piece->first + piece->second == next->first) {
    piece->second += next->second;
    a.free.erase(next);
  }
  if (piece == a.free.begin()) return;
  if (const auto before = std::prev(piece); before->first + before->second == piece->first) {
    before->second += piece->second;
    a.free.erase(piece);
  }
}

void* take_shared(std::size_t bytes) {
  void* const memory = std::aligned_alloc(kAlignment, rounded(bytes, kAlignment));
  if (memory != nullptr) arena().shared[static_cast<std::byte*>(memory)] = rounded(bytes, kAlignment);
  return memory;
}

void give_shared(void* memory) {
  finish();
  arena().shared.erase(static_cast<std::byte*>(memory));
  std::free(memory);
}

bool reachable(const recoverssm::TensorView& view) {
  if (!view.present() || view.empty()) return true;
  const recoverssm::Footprint place = recoverssm::footprint_of(view);
  const auto* const low = reinterpret_cast<const std::byte*>(place.low);
  const auto* const high = reinterpret_cast<const std::byte*>(place.high);
  if (arena().has(low)) return high <= arena().base + arena().used;
  const auto* const piece = shared_piece(low);
  return piece != nullptr && high <= piece->first + piece->second;
}

void finish() { finish_until(stream_place); }

}  // namespace fake_cuda

namespace recoverssm::cuda {

using namespace fake_cuda;

void* allocate(std::size_t bytes) { return present ? take(bytes) : nullptr; }
void release(void* memory) { give(memory); }
void* allocate_shared(SharedMemory, std::size_t bytes) { return take_shared(bytes); }
void release_shared(SharedMemory, void* memory) { give_shared(memory); }
void* create_stream() { return &launches; }
void destroy_stream(void*) {}
bool capturing(void*) { return false; }
Status synchronize(void*) {
  ++waits;
  finish();
  return {};
}
Status copy_to_device(void* device, const void* host, std::size_t bytes) {
  const Opened opened;
  std::memcpy(device, host, bytes);
  return {};
}
Status copy_to_host(void* host, const void* device, std::size_t bytes) {
  const Opened opened;
  std::memcpy(host, device, bytes);
  return {};
}

namespace {

constexpr BackendMemory kMemory{.allocate = [](std::size_t bytes, void*) { return take(bytes); },
                                .release = [](void* memory, void*) { give(memory); },
                                .allocate_staging = [](std::size_t bytes, void*) { return take_shared(bytes); },
                                .release_staging = [](void* memory, void*) { give_shared(memory); },
                                .copy = copy,
                                .fill = fill,
                                .wait = synchronize,
                                .create_mark = [](void*) -> void* { return new Mark; },
                                .destroy_mark = [](void* mark) { delete static_cast<Mark*>(mark); },
                                .mark =
                                    [](void* mark, void*) {
                                      static_cast<Mark*>(mark)->place = stream_place;
                                      return Status{};
                                    },
                                .passed = passed};

}  // namespace

const BackendMemory& memory() { return kMemory; }

}  // namespace recoverssm::cuda
