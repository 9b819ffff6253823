#include "session/upload.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace recoverssm {
namespace {

constexpr std::int64_t kLeastSlot = 4096, kAlignment = 16;

std::int64_t padded(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

UploadSlots::~UploadSlots() {
  for (const auto& slot : slots_) {
    if (slot->mark != nullptr) place_.memory().destroy_mark(slot->mark);
  }
}

UploadSlots::Slot* UploadSlots::find(std::int64_t bytes) {
  const auto fits = [&](const auto& slot) { return !slot->taken && slot->bytes >= bytes && place_.memory().passed(slot->mark); };
  const auto at = std::ranges::find_if(slots_, fits);
  return at == slots_.end() ? nullptr : at->get();
}

void UploadSlots::drop_free() {
  std::erase_if(slots_, [&](const auto& slot) {
    if (slot->taken) return false;
    place_.memory().destroy_mark(slot->mark);
    return true;
  });
}

UploadSlots::Slot& UploadSlots::take(std::int64_t bytes) {
  Slot* slot = find(bytes);
  if (slot == nullptr && slots_.size() >= kMost) {
    must(place_.memory().wait(place_.stream));
    slot = find(bytes);
    if (slot == nullptr) drop_free();  // all too small
  }
  if (slot == nullptr) {
    auto made = std::make_unique<Slot>();
    made->bytes = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, kLeastSlot))));
    made->staging = allocate_staging(place_, made->bytes);
    made->device = allocate(place_, made->bytes);
    slots_.reserve(slots_.size() + 1);
    made->mark = place_.memory().create_mark(place_.stream);
    if (made->mark == nullptr) throw Error({ErrorKind::device_error, "session: the device has no event left"});
    slots_.push_back(std::move(made));
    slot = slots_.back().get();
  }
  slot->taken = true;
  return *slot;
}

void Upload::send(UploadSlots& slots) {
  const MemoryPlace& place = slots.place();
  std::int64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += padded(entry.count * size_of(entry.dtype));
  if (place.on_device()) slot_ = &slots.take(bytes);
  std::int64_t at = 0;
  for (const Entry& entry : entries_) {
    *entry.view = {entry.values, entry.dtype, {entry.count}};
    if (!place.on_device()) continue;
    const auto size = static_cast<std::size_t>(entry.count * size_of(entry.dtype));
    if (size > 0) std::memcpy(slot_->staging.get() + at, entry.values, size);
    entry.view->data = slot_->device.get() + at;
    at += padded(entry.count * size_of(entry.dtype));
  }
  entries_.clear();
  if (!place.on_device()) return;
  const BackendMemory& memory = place.memory();
  if (at > 0) must(memory.copy({.to = slot_->device.get(), .from = slot_->staging.get(), .width = at}, place.stream));
  must(memory.mark(slot_->mark, place.stream));
}

}  // namespace recoverssm
