// Reads C structs of any version into C++ ones. Nothing is trusted but the caller's word that struct_size bytes (and, in an array, that
// many for each element) can be read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "c_api/fields.h"
#include "c_api/status.h"

namespace recoverssm::c_api {

// Memory of converted lists: the front of a workspace as far as it reaches, then the heap. What came from the heap tells that a run must
// be refused for its workspace, after its arguments have been looked at.
class ListMemory {
 public:
  explicit ListMemory(Workspace workspace = {}) : rest_(workspace) {}

  template <class T>
  T* take(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= alignof(std::max_align_t));
    const std::size_t bytes = (count * sizeof(T) + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    needed_ += bytes;
    const bool aligned = reinterpret_cast<std::uintptr_t>(rest_.data) % kWorkspaceAlignment == 0;
    if (rest_.data == nullptr || !aligned || bytes > rest_.bytes) {
      return reinterpret_cast<T*>(heap_.emplace_back(new std::byte[bytes]).get());
    }
    auto* const memory = static_cast<std::byte*>(rest_.data);
    rest_ = {memory + bytes, rest_.bytes - bytes};
    return reinterpret_cast<T*>(memory);
  }

  std::size_t needed() const { return needed_; }  // bytes of workspace for all lists
  bool spilled() const { return !heap_.empty(); }
  Workspace rest() const { return rest_; }

 private:
  Workspace rest_;
  std::size_t needed_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> heap_;
};

class Import {
 public:
  Import(const char* op, ListMemory& memory) : op_(op), memory_(memory) {}

  bool ok() const { return status_.ok(); }
  Status take() { return std::move(status_); }

  // Reads *from, which the caller knows as `name`.
  template <class C, class Cpp>
  void read(const char* name, const C* from, Cpp& to) {
    read_at(Place{name, -1, place_}, from, to);
  }
  // Looks at the size of *to alone: a struct that is to be written, whose contents mean nothing.
  template <class Cpp, class C>
  void check(const char* name, const C* to) {
    only_size_ = true;
    Cpp unused;
    read(name, to, unused);
    only_size_ = false;
  }
  // The same as read, of `count` structs: into the list memory, or into a vector.
  template <class C, class Cpp>
  void read(const char* name, const C* from, std::size_t count, std::span<const Cpp>& to) {
    Cpp* items = nullptr;
    const auto next = [&](std::size_t i) -> Cpp& {
      if (i == 0) items = memory_.take<Cpp>(count);
      return *new (items + i) Cpp();
    };
    if (read_each(name, from, count, next)) to = {items, count};
  }
  template <class C, class Cpp>
  void read(const char* name, const C* from, std::size_t count, std::vector<Cpp>& to) {
    read_each(name, from, count, [&](std::size_t) -> Cpp& { return to.emplace_back(); });
  }

  // The visitor of fields.h.
  template <class C, class Cpp>
  void field(const char* name, C& from, Cpp& to) {
    if (given(name, &from, sizeof from)) convert(name, from, to);
  }
  template <class C, class Cpp>
  void optional(const char* name, std::int32_t& has, C& value, std::optional<Cpp>& to) {
    if (!given(name, &has, sizeof has + sizeof value)) return;
    bool present = false;
    convert(name, has, present);
    if (present) to = value;
  }
  template <class C, class Cpp>
  void nested(const char* name, const C*& from, Cpp& to) {
    if (given(name, &from, sizeof from)) read(name, from, to);
  }
  template <class C, class Cpp>
  void maybe(const char* name, const C*& from, Cpp& to) {
    if (given(name, &from, sizeof from) && from != nullptr) read(name, from, to);
  }
  template <class C, class Cpp>
  void maybe(const char* name, const C*& from, std::optional<Cpp>& to) {
    if (given(name, &from, sizeof from) && from != nullptr) read(name, from, to.emplace());
  }
  template <class C, class Cpp>
  void list(const char* name, const C*& from, std::size_t& count, std::span<const Cpp>& to) {
    if (given(name, &from, sizeof from + sizeof count)) read(name, from, count, to);
  }
  template <class C, class Cpp>
  void list(const char* name, const C*& from, std::size_t& count, std::vector<Cpp>& to) {
    if (given(name, &from, sizeof from + sizeof count)) read(name, from, count, to);
  }
  template <class C, std::size_t n>
  void array(const char* name, C (&from)[n], std::array<C, n>& to) {
    if (given(name, &from, sizeof from)) std::copy_n(from, n, to.begin());
  }
  template <std::size_t n>
  void text(const char* name, char (&from)[n], std::string& /*to*/) {
    given(name, &from, sizeof from);
  }
  template <class C>
  void reserved(C& from) {
    if (given("reserved", &from, sizeof from) && from != 0) fail({"reserved", -1, place_}, std::to_string(from), "0");
  }

 private:
  // Where in the params a struct or field stands: "params", "layers[1].records".
  struct Place {
    const char* name;
    std::int64_t index;  // -1: none
    const Place* outer;

    std::string text() const {
      // What stands in the params themselves is named as in the C++ API.
      const bool in_params = outer == nullptr || (outer->outer == nullptr && outer->index < 0);
      const std::string before = in_params ? "" : outer->text() + ".";
      return before + name + (index < 0 ? "" : "[" + std::to_string(index) + "]");
    }
  };

  // Bytes a struct may have beyond what this version knows: a larger size is rather a struct nobody initialised.
  static constexpr std::size_t kMostExtra = 4096;
  // The same for a count.
  static constexpr std::size_t kMostItems = 65536;

  static std::size_t size_of(const void* struct_begin) {
    std::size_t size = 0;
    std::memcpy(&size, struct_begin, sizeof size);
    return size;
  }

  void fail(const Place& place, const std::string& got, const std::string& expected) {
    if (ok()) status_ = invalid(op_, place.text(), got, expected);
  }
  void fail_size(const Place& place, std::size_t got, const std::string& expected) {
    if (ok()) status_ = invalid(op_, place.text() + ".struct_size", std::to_string(got), expected);
  }

  bool check_size(const Place& place, std::size_t size, std::size_t known) {
    if (size >= sizeof size && size % sizeof size == 0 && size <= known + kMostExtra) return true;
    fail_size(place, size, std::to_string(known) + ", which its init function sets");
    return false;
  }

  // Reads element i into next(i). Returns whether there are elements, and all of them right.
  template <class C, class Next>
  bool read_each(const char* name, const C* from, std::size_t count, Next&& next) {
    if (!ok() || count == 0) return false;
    const Place whole{name, -1, place_};
    if (count > kMostItems) {
      fail(whole, std::to_string(count) + " structs", "at most " + std::to_string(kMostItems));
      return false;
    }
    if (from == nullptr) {
      fail(whole, "null", std::to_string(count) + " structs");
      return false;
    }
    const std::size_t stride = size_of(from);
    if (!check_size({name, 0, place_}, stride, sizeof(C))) return false;
    for (std::size_t i = 0; ok() && i < count; ++i) {
      const Place place{name, static_cast<std::int64_t>(i), place_};
      const C* const element = reinterpret_cast<const C*>(reinterpret_cast<const std::byte*>(from) + i * stride);
      if (size_of(element) != stride) {
        fail_size(place, size_of(element), std::to_string(stride) + ", as " + name + "[0] has");
      } else {
        read_at(place, element, next(i));
      }
    }
    return ok();
  }

  template <class C, class Cpp>
  void read_at(const Place& place, const C* from, Cpp& to) {
    if (!ok()) return;
    if (from == nullptr) return fail(place, "null", "a struct");
    const std::size_t size = size_of(from);
    if (!check_size(place, size, sizeof(C))) return;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
    for (std::size_t i = sizeof(C); i < size; ++i) {
      if (bytes[i] == 0) continue;
      return fail_size(place, size,
                       std::to_string(sizeof(C)) + " or zeros behind that: byte " + std::to_string(i) +
                           " is set, and this library (" + RECOVERSSM_VERSION + ") does not know what it means");
    }
    C known{};  // fields past an older struct's end are never looked at
    std::memcpy(&known, from, std::min(size, sizeof(C)));
    const Place* const outer_place = place_;
    const std::byte* const outer_begin = begin_;
    const std::size_t outer_size = size_;
    place_ = &place, begin_ = reinterpret_cast<const std::byte*>(&known), size_ = size;
    fields(*this, known, to);
    place_ = outer_place, begin_ = outer_begin, size_ = outer_size;
  }

  // Whether the struct being read reaches over a field that is to be read. One that ends inside it has no version.
  bool given(const char* name, const void* field, std::size_t bytes) {
    if (!ok()) return false;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(field) - begin_);
    if (offset >= size_) return false;
    if (offset + bytes <= size_) return !only_size_;
    fail_size(*place_, size_, std::string("a size that does not end inside ") + name);
    return false;
  }

  void convert(const char* name, const recoverssm_tensor& from, TensorView& to) {
    if (from.dims < 0 || (from.dims == 0 && from.data == nullptr)) return;
    if (from.reserved[0] != 0 || from.reserved[1] != 0) return fail({name, -1, place_}, "reserved words that are not 0", "0");
    to.data = from.data;
    convert(name, from.dtype, to.dtype);
    to.dims = from.dims;
    std::copy_n(from.shape, kMaxDims, to.shape.begin());
    std::copy_n(from.stride, kMaxDims, to.stride.begin());
  }
  // Numbers that are no constant but fit are left to validate, which knows what the operation takes.
  template <class Enum>
  requires std::is_enum_v<Enum>
  void convert(const char* name, std::int32_t from, Enum& to) {
    if (from < 0 || from > 255) return fail({name, -1, place_}, "value " + std::to_string(from), "one of the constants");
    to = static_cast<Enum>(from);
  }
  void convert(const char* name, std::int32_t from, bool& to) {
    if (from != 0 && from != 1) return fail({name, -1, place_}, std::to_string(from), "0 or 1");
    to = from == 1;
  }
  template <class T>
  requires(!std::is_enum_v<T> && !std::is_same_v<T, bool>) void convert(const char* /*name*/, const T& from, T& to) { to = from; }

  const char* op_;
  ListMemory& memory_;
  Status status_;
  const Place* place_ = nullptr;
  const std::byte* begin_ = nullptr;  // of the struct being read
  std::size_t size_ = 0;
  bool only_size_ = false;
};

static_assert(RECOVERSSM_MAX_DIMS == kMaxDims && RECOVERSSM_WORKSPACE_ALIGNMENT == kWorkspaceAlignment);

}  // namespace recoverssm::c_api
