// Writes C++ values into C structs of any version: the defaults of the init functions, and what the library gives back.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "c_api/fields.h"

namespace recoverssm::c_api {

// The visitor of fields.h. It writes tensors, numbers and texts; structs and lists become absent, which is their default.
struct Export {
  template <class C, class Cpp>
  void field(const char* /*name*/, C& to, const Cpp& from) {
    if constexpr (std::is_same_v<C, recoverssm_tensor>) {
      to.data = from.data;
      to.dtype = static_cast<std::int32_t>(from.dtype);
      to.dims = from.dims;
      std::copy_n(from.shape.begin(), kMaxDims, to.shape);
      std::copy_n(from.stride.begin(), kMaxDims, to.stride);
    } else {
      to = static_cast<C>(from);
    }
  }
  template <class C, class Cpp>
  void optional(const char* /*name*/, std::int32_t& has, C& value, const std::optional<Cpp>& from) {
    has = from.has_value() ? 1 : 0;
    value = from.value_or(C{});
  }
  template <class C, class Cpp>
  void nested(const char* /*name*/, const C*& to, const Cpp& /*from*/) {
    to = nullptr;
  }
  template <class C, class Cpp>
  void maybe(const char* /*name*/, const C*& to, const Cpp& /*from*/) {
    to = nullptr;
  }
  template <class C, class Items>
  void list(const char* /*name*/, const C*& to, std::size_t& count, const Items& /*from*/) {
    to = nullptr;
    count = 0;
  }
  template <class C, std::size_t n>
  void array(const char* /*name*/, C (&to)[n], const std::array<C, n>& from) {
    std::copy(from.begin(), from.end(), to);
  }
  template <std::size_t n>
  void text(const char* /*name*/, char (&to)[n], const std::string& from) {
    from.copy(to, n - 1);  // `to` is zeroed
  }
  template <class C>
  void reserved(C& to) {
    to = 0;
  }
};

// Writes `from` into the `size` bytes of *to that its caller knows.
template <class C, class Cpp>
void write(C* to, std::size_t size, Cpp from) {
  C all{};
  Export exporter;
  fields(exporter, all, from);
  all.struct_size = size;
  std::memcpy(static_cast<void*>(to), &all, std::min(size, sizeof(C)));
}

// What an init function does. A size without room for struct_size itself writes nothing.
template <class Cpp, class C>
void init(C* to, std::size_t size) {
  if (to == nullptr || size < sizeof(std::size_t)) return;
  std::memset(static_cast<void*>(to), 0, size);
  write(to, size, Cpp{});
}

}  // namespace recoverssm::c_api
