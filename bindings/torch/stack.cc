#include "stack.h"

#include <algorithm>

namespace recoverssm::torch_ops {

namespace {

void check(AOTITorchError error) {
  if (error != TORCH_SUCCESS) throw std::runtime_error("recoverssm: PyTorch could not describe an argument");
}

struct KnownDtype {
  std::int32_t torch;
  DType ours;
};

std::optional<DType> dtype_of(std::int32_t torch_dtype) {
  static const KnownDtype known[] = {
      {aoti_torch_dtype_float32(), DType::f32},  {aoti_torch_dtype_bfloat16(), DType::bf16},
      {aoti_torch_dtype_float16(), DType::f16},  {aoti_torch_dtype_int32(), DType::i32},
      {aoti_torch_dtype_bool(), DType::boolean}, {aoti_torch_dtype_float64(), DType::f64},
      {aoti_torch_dtype_int64(), DType::i64},    {aoti_torch_dtype_uint8(), DType::u8},
  };
  for (const KnownDtype& dtype : known) {
    if (dtype.torch == torch_dtype) return dtype.ours;
  }
  return std::nullopt;
}

}  // namespace

StackReader::~StackReader() {
  for (AtenTensorHandle handle : owned_) aoti_torch_delete_tensor_object(handle);
}

std::string text_of(const Place& place) { return place.cuda ? "cuda:" + std::to_string(place.index) : "cpu"; }

void StackReader::refuse(const char* name, const std::string& got, const std::string& expected, ErrorKind kind) {
  if (!refusal_.ok()) return;
  refusal_ = {kind, std::string(op_) + ": " + name + ": " + got + ", expected " + expected};
}

void StackReader::place_of(const char* name, AtenTensorHandle handle) {
  std::int32_t type = 0;
  Place place;
  check(aoti_torch_get_device_type(handle, &type));
  if (type == aoti_torch_device_type_cuda()) {
    place.cuda = true;
    check(aoti_torch_get_device_index(handle, &place.index));
  } else if (type != aoti_torch_device_type_cpu()) {
    return refuse(name, "a tensor on another device", "all tensors on the CPU or on one CUDA device", ErrorKind::unsupported);
  }
  if (placed_by_ == nullptr) place_ = place, placed_by_ = name;
  if (place == place_) return;
  refuse(name, "a tensor on " + text_of(place), text_of(place_) + ", where " + placed_by_ + " is", ErrorKind::unsupported);
}

TensorView StackReader::tensor(const char* name, AtenTensorHandle handle, bool written) {
  owned_.push_back(handle);
  TensorView view;
  std::int32_t dtype = 0;
  std::int64_t dims = 0;
  std::int64_t *shape = nullptr, *strides = nullptr;
  place_of(name, handle);
  check(aoti_torch_get_dtype(handle, &dtype));
  check(aoti_torch_get_dim(handle, &dims));
  const std::optional<DType> known = dtype_of(dtype);
  if (!known) {
    refuse(name, "a dtype that no operation knows", "f32, bf16, f16, i32 or boolean");
    return view;
  }
  if (dims > kMaxDims) {
    refuse(name, std::to_string(dims) + " dimensions", "at most " + std::to_string(kMaxDims));
    return view;
  }
  check(aoti_torch_get_sizes(handle, &shape));
  check(aoti_torch_get_strides(handle, &strides));
  view.dtype = *known;
  view.dims = static_cast<int>(dims);
  std::copy_n(shape, dims, view.shape.begin());
  std::copy_n(strides, dims, view.stride.begin());
  if (written) {
    check(torch_get_mutable_data_ptr(handle, &view.data));
  } else {
    // Views have one pointer type; the operation itself does not write what it reads.
    const void* data = nullptr;
    check(torch_get_const_data_ptr(handle, &data));
    view.data = const_cast<void*>(data);
  }
  return view;
}

void StackReader::maybe(const char* name, TensorView& view) {
  if (const auto handle = take<std::optional<AtenTensorHandle>>()) view = tensor(name, *handle, false);
}

void StackReader::tensors(const char* name, std::vector<TensorView>& views, bool written) {
  for (AtenTensorHandle handle : take<std::vector<AtenTensorHandle>>()) views.push_back(tensor(name, handle, written));
}

std::int32_t StackReader::narrow(const char* name, std::int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) return static_cast<std::int32_t>(value);
  refuse(name, std::to_string(value), "an integer of 32 bits");
  return 0;
}

void StackReader::optional_integer(const char* name, std::optional<std::int32_t>& value) {
  if (const auto given = take<std::optional<std::int64_t>>()) value = narrow(name, *given);
}

void StackReader::optional_real(const char*, std::optional<float>& value) {
  if (const auto given = take<std::optional<double>>()) value = static_cast<float>(*given);
}

void StackReader::integers(const char* name, std::vector<std::int32_t>& values) {
  for (std::int64_t value : take<std::vector<std::int64_t>>()) values.push_back(narrow(name, value));
}

void StackReader::reals(const char*, std::vector<float>& values) {
  for (double value : take<std::vector<double>>()) values.push_back(static_cast<float>(value));
}

void StackReader::flags(const char*, std::vector<bool>& values) { values = take<std::vector<bool>>(); }

std::string StackReader::text(StringHandle handle) {
  std::size_t length = 0;
  const char* data = nullptr;
  check(torch_string_length(handle, &length));
  check(torch_string_c_str(handle, &data));
  std::string text(data, length);
  check(torch_delete_string(handle));
  return text;
}

}  // namespace recoverssm::torch_ops
