#include "recoverssm/types.hpp"

#include <algorithm>
#include <iterator>

#include "recoverssm/rows.hpp"

namespace recoverssm {

TensorView::TensorView(void* data_, DType dtype_, std::initializer_list<std::int64_t> shape_,
                       std::initializer_list<std::int64_t> stride_)
    : data(data_), dtype(dtype_), dims(static_cast<int>(shape_.size())) {
  // More than kMaxDims dimensions, or strides of another number, cannot be described: validation refuses such a `dims`.
  if (shape_.size() > shape.size() || stride_.size() != shape_.size()) {
    dims = kMaxDims + 1;
    return;
  }
  std::copy(shape_.begin(), shape_.end(), shape.begin());
  std::copy(stride_.begin(), stride_.end(), stride.begin());
}

TensorView::TensorView(void* data_, DType dtype_, std::initializer_list<std::int64_t> shape_)
    : data(data_), dtype(dtype_), dims(static_cast<int>(shape_.size())) {
  if (shape_.size() > shape.size()) {
    dims = kMaxDims + 1;
    return;
  }
  std::copy(shape_.begin(), shape_.end(), shape.begin());
  std::int64_t step = 1;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    stride[d] = step;
    // A shape too large for int64 is refused by validation; the strides only must not overflow here.
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[d], 1), &step)) step = INT64_MAX;
  }
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "boolean";
  }
  return "unknown";
}

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::ok:
      return "ok";
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::out_of_range:
      return "out_of_range";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::bad_state:
      return "bad_state";
    case ErrorKind::device_error:
      return "device_error";
  }
  return "unknown";
}

const char* name_of(Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return "cpu";
    case Backend::cuda:
      return "cuda";
    case Backend::sycl:
      return "sycl";
  }
  return "unknown";
}

const char* name_of(Operation operation) {
  constexpr const char* kNames[] = {"split_projections",
                                    "causal_conv1d",
                                    "causal_conv1d_window",
                                    "gated_delta_rule",
                                    "gated_delta_rule_snapshots",
                                    "gated_delta_rule_verify",
                                    "commit_plan",
                                    "commit_plan_groups",
                                    "commit",
                                    "materialize",
                                    "align_move",
                                    "align_advance",
                                    "short_conv",
                                    "gdn_attention"};
  const std::int64_t index = static_cast<std::int64_t>(operation) - 1;
  return index >= 0 && index < std::ssize(kNames) ? kNames[index] : "unknown";
}

const char* name_of(Target target) {
  switch (target) {
    case Target::best:
      return "best";
    case Target::portable:
      return "portable";
    case Target::avx2:
      return "avx2";
    case Target::avx512:
      return "avx512";
  }
  return "unknown";
}

const char* record_layout_id(Gate gate) {
  switch (gate) {
    case Gate::gdn:
      return "gdn_f32";
    case Gate::kda:
      return "kda_act";
  }
  return "unknown";
}

}  // namespace recoverssm
