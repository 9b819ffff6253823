// Index data on its way to where operations read it. On the CPU that is the vectors it was written to, which must stay as they are; on a
// device a piece of its memory, which one copy from staging memory fills: nobody waits.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "session/memory.h"

namespace recoverssm {

// Staging memory and its counterpart on the device, used again and again. Everything is on one stream, so the device's part may be given to
// the next upload at once; staging memory when the copy from it is done.
class UploadSlots {
 public:
  explicit UploadSlots(const MemoryPlace& place) : place_(place) {}
  UploadSlots(const UploadSlots&) = delete;
  UploadSlots& operator=(const UploadSlots&) = delete;
  ~UploadSlots();

  struct Slot {
    std::int64_t bytes = 0;
    Memory staging, device;
    void* mark = nullptr;
    bool taken = false;
  };
  // Allocates until there are as many as are ever on the way at once. Beyond kMost it waits for the stream.
  Slot& take(std::int64_t bytes);
  const MemoryPlace& place() const { return place_; }

 private:
  static constexpr std::size_t kMost = 64;
  Slot* find(std::int64_t bytes);
  void drop_free();

  MemoryPlace place_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

class Upload {
 public:
  Upload() = default;
  Upload(Upload&& other) noexcept : entries_(std::move(other.entries_)), slot_(std::exchange(other.slot_, nullptr)) {}
  Upload& operator=(Upload&&) = delete;
  ~Upload() {
    if (slot_ != nullptr) slot_->taken = false;
  }

  // After send() `view` is of these values, in one dimension. Both stay where they are until then.
  void add(std::vector<std::int32_t>& values, TensorView& view) { add(values.data(), DType::i32, values.size(), view); }
  void add_flags(std::vector<std::uint8_t>& values, TensorView& view) { add(values.data(), DType::boolean, values.size(), view); }
  // Views hold until this object is gone. Calls that are on the stream by then have read them.
  void send(UploadSlots& slots);

 private:
  struct Entry {
    void* values = nullptr;
    DType dtype = DType::i32;
    std::int64_t count = 0;
    TensorView* view = nullptr;
  };
  void add(void* values, DType dtype, std::size_t count, TensorView& view) {
    entries_.push_back({values, dtype, static_cast<std::int64_t>(count), &view});
  }

  std::vector<Entry> entries_;
  UploadSlots::Slot* slot_ = nullptr;
};

}  // namespace recoverssm
