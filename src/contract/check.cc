#include "contract/check.h"

#include <cmath>

namespace recoverssm {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 60;  // bytes a view may span: sums and differences of extents fit in int64

const char* ordinal(int d, int dims) {
  if (dims == 1) return "length";
  if (d == dims - 1) return "last dimension";
  if (d == 0) return "first dimension";
  return d == 1 ? "second dimension" : "third dimension";
}

bool meets(const Dim& dim, std::int64_t size) {
  switch (dim.rule) {
    case Dim::Rule::any:
      return true;
    case Dim::Rule::exactly:
      return size == dim.size;
    case Dim::Rule::at_least:
      return size >= dim.size;
  }
  return false;
}

std::string expectation(const Dim& dim) {
  if (dim.what[0] == '\0') return text(dim.size);
  return text(dim.what, dim.rule == Dim::Rule::at_least ? " >= " : " = ", dim.size);
}

}  // namespace

Name Name::dot(const char* field) const {
  Name name = *this;
  for (const char*& word : name.words_) {
    if (word != nullptr && word[0] != '\0') continue;
    word = field;
    break;
  }
  return name;
}

std::string Name::text() const {
  std::string result = words_[0];
  if (index_ >= 0) result += "[" + std::to_string(index_) + "]";
  for (int w = 1; w < 3 && words_[w] != nullptr; ++w) result += std::string(".") + words_[w];
  return result;
}

std::string DTypes::text() const {
  std::string result;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    if (!has(dtype)) continue;
    if (!result.empty()) result += " or ";
    result += name_of(dtype);
  }
  return result;
}

std::string list(const std::array<std::int64_t, kMaxDims>& values, int count) {
  std::string result = "[";
  for (int d = 0; d < count; ++d) {
    if (d > 0) result += ", ";
    result += std::to_string(values[static_cast<std::size_t>(d)]);
  }
  return result + "]";
}

void Check::fail(ErrorKind kind, const Name& name, const std::string& got, const std::string& expected) {
  if (!ok()) return;
  status_.kind = kind;
  status_.message = text(op_, ": ", name.text(), ": ", got, ", expected ", expected);
}

void Check::required(const Name& name, const TensorView& view, const char* expected) {
  if (ok() && !view.present()) invalid(name, "missing", expected);
}

void Check::absent(const Name& name, const TensorView& view, const char* expected) {
  if (ok() && view.present()) invalid(name, "given", expected);
}

void Check::view(const Name& name, const TensorView& view, DTypes dtypes, std::initializer_list<Dim> dims) {
  if (!ok()) return;
  const auto shape_text = [&] {
    std::string result = "[";
    for (const Dim& dim : dims) result += std::string(result.size() > 1 ? ", " : "") + dim.what;
    return result + "]";
  };
  const int count = static_cast<int>(dims.size());
  if (!view.present()) return invalid(name, "missing", text("a tensor ", shape_text(), " of ", dtypes.text()));
  if (view.dims != count) {
    const std::string shape = view.dims <= kMaxDims ? " of shape " + list(view.shape, view.dims) : "";
    return invalid(name, text(view.dims, view.dims == 1 ? " dimension" : " dimensions", shape), text(count, ": ", shape_text()));
  }
  if (!dtypes.has(view.dtype)) return invalid(name, text("dtype ", name_of(view.dtype)), dtypes.text());
  int d = 0;
  for (const Dim& dim : dims) {
    const std::int64_t size = view.shape[static_cast<std::size_t>(d)];
    if (size < 0) return invalid(name, text(ordinal(d, count), " ", size), "at least 0");
    if (!meets(dim, size)) return invalid(name, text(ordinal(d, count), " ", size), expectation(dim));
    ++d;
  }
  addressable(name, view);
}

void Check::addressable(const Name& name, const TensorView& view) {
  std::int64_t elements = 1;  // zeros counted as ones: the product is formed dimension by dimension elsewhere
  std::int64_t extent = size_of(view.dtype);
  for (int d = 0; d < view.dims; ++d) {
    const std::int64_t size = view.shape[static_cast<std::size_t>(d)], stride = view.stride[static_cast<std::size_t>(d)];
    elements = times(elements, size > 0 ? size : 1);
    const std::int64_t step = stride == INT64_MIN ? INT64_MAX : times(stride < 0 ? -stride : stride, size_of(view.dtype));
    if (size > 1) extent = plus(extent, times(step, size - 1));
  }
  if (times(elements, size_of(view.dtype)) >= kMaxExtent) {
    return invalid(name, text("shape ", list(view.shape, view.dims)), "a size in bytes that fits in 64 bits");
  }
  if (view.empty()) return;
  if (extent >= kMaxExtent) {
    return invalid(name, text("strides ", list(view.stride, view.dims)), "addresses that fit in 64 bits");
  }
  if (view.data == nullptr) return invalid(name, "null data pointer", text("data for shape ", list(view.shape, view.dims)));
  if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(size_of(view.dtype)) != 0) {
    return invalid(name, text("data pointer ", view.data), text("one aligned to ", name_of(view.dtype)));
  }
}

void Check::stride(const Name& name, const TensorView& view, int d, const Dim& dim) {
  if (!ok()) return;
  const auto i = static_cast<std::size_t>(d);
  // numpy gives a view without elements strides of 0.
  if (view.empty() || view.shape[i] <= 1 || view.stride[i] == dim.size) return;
  invalid(name, text("stride ", view.stride[i], " of the ", view.dims == 1 ? "only dimension" : ordinal(d, view.dims)),
          expectation(dim));
}

void Check::at_least(const Name& name, std::int64_t value, std::int64_t least) {
  if (ok() && value < least) invalid(name, text(value), text("at least ", least));
}

void Check::finite(const Name& name, float value) {
  if (ok() && !std::isfinite(value)) invalid(name, text(value), "a finite number");
}

void Check::positive(const Name& name, float value) {
  if (ok() && !(std::isfinite(value) && value > 0)) invalid(name, text(value), "a finite number > 0");
}

}  // namespace recoverssm
