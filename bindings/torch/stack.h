// Reads an operation's arguments from the stack of values that PyTorch hands to a stable-ABI kernel, in the order of the schema.
#pragma once

#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recoverssm/rows.hpp"

namespace recoverssm::torch_ops {

// A device as PyTorch counts.
struct Place {
  bool cuda = false;
  std::int32_t index = 0;
  bool operator==(const Place&) const = default;
};
std::string text_of(const Place& place);  // "cpu", "cuda:0"

// Each function takes the next value and owns it until the reader's end: the values of a stack belong to the kernel. A value that no
// Params can hold (a fifth dimension, an integer beyond 32 bits, an unknown word) is refused with invalid_argument, and reading goes on, so
// that nothing leaks; the first refusal is kept.
class StackReader {
 public:
  StackReader(const char* op, const StableIValue* stack) : op_(op), next_(stack) { owned_.reserve(64); }
  ~StackReader();
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;

  const Status& refusal() const { return refusal_; }
  void refuse(const char* name, const std::string& got, const std::string& expected, ErrorKind kind = ErrorKind::invalid_argument);
  // Where all tensors are; the CPU if there is none.
  const Place& place() const { return place_; }

  void read(const char* name, TensorView& view) { view = tensor(name, take<AtenTensorHandle>(), false); }
  void write(const char* name, TensorView& view) { view = tensor(name, take<AtenTensorHandle>(), true); }
  void maybe(const char* name, TensorView& view);
  void read_list(const char* name, std::vector<TensorView>& views) { tensors(name, views, false); }
  void write_list(const char* name, std::vector<TensorView>& views) { tensors(name, views, true); }

  void integer(const char* name, std::int32_t& value) { value = narrow(name, take<std::int64_t>()); }
  void integer(const char* name, std::int32_t& value, std::int32_t) { integer(name, value); }
  void optional_integer(const char* name, std::optional<std::int32_t>& value);
  void real(const char*, float& value, int) { value = static_cast<float>(take<double>()); }
  void optional_real(const char* name, std::optional<float>& value);
  void flag(const char*, bool& value, bool) { value = take<bool>(); }
  template <class Words, class Enum>
  void word(const char* name, const Words& words, Enum& value) {
    value = find(name, words, text(take<StringHandle>()));
  }
  template <class Words, class Enum>
  void word(const char* name, const Words& words, Enum& value, const char*) {
    word(name, words, value);
  }
  template <class Words, class Enum>
  void optional_word(const char* name, const Words& words, Enum& value) {
    if (const auto handle = take<std::optional<StringHandle>>()) value = find(name, words, text(*handle));
  }

  void integers(const char* name, std::vector<std::int32_t>& values);
  void reals(const char* name, std::vector<float>& values);
  void flags(const char* name, std::vector<bool>& values);
  template <class Words, class Enum>
  void words(const char* name, const Words& words, std::vector<Enum>& values) {
    for (StringHandle handle : take<std::vector<StringHandle>>()) values.push_back(find(name, words, text(handle)));
  }

 private:
  template <class T>
  T take() {
    return torch::stable::detail::to<T>(*next_++);
  }
  template <class Enum, std::size_t N>
  Enum find(const char* name, const std::pair<const char*, Enum> (&words)[N], const std::string& text) {
    std::string expected;
    for (const auto& [word, value] : words) {
      if (text == word) return value;
      expected += expected.empty() ? word : std::string(" or ") + word;
    }
    refuse(name, '"' + text + '"', expected);
    return {};
  }
  static std::string text(StringHandle handle);  // and deletes it
  TensorView tensor(const char* name, AtenTensorHandle handle, bool written);
  void place_of(const char* name, AtenTensorHandle handle);
  void tensors(const char* name, std::vector<TensorView>& views, bool written);
  std::int32_t narrow(const char* name, std::int64_t value);

  const char* op_;
  const StableIValue* next_;
  std::vector<AtenTensorHandle> owned_;
  Status refusal_;
  Place place_;
  const char* placed_by_ = nullptr;  // the first tensor
};

}  // namespace recoverssm::torch_ops
