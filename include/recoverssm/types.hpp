// Types shared by every operation: dtypes, strided views, errors, and how one call is launched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <utility>

namespace recoverssm {

// Element types. Activations (T in the docs): f32, bf16, f16. States: f32, bf16, f16. Index data: i32. Flags: boolean (1 byte).
// f64, i64 and u8 exist so that a wrong tensor can be described and refused; no operation takes them.
enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, i64, u8, boolean };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

const char* name_of(DType dtype);  // "f32", "bf16", ...

constexpr int kMaxDims = 4;

// A strided view of memory the caller owns. Shape and strides count elements, never bytes; strides may be any int64 the operation
// allows. A default-constructed view is absent, which is how an optional argument is left out; a view with no elements is present
// and may have a null data pointer.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  int dims = -1;  // -1: absent
  std::array<std::int64_t, kMaxDims> shape{};
  std::array<std::int64_t, kMaxDims> stride{};

  TensorView() = default;

  // Any strides.
  TensorView(void* data_, DType dtype_, std::initializer_list<std::int64_t> shape_, std::initializer_list<std::int64_t> stride_);

  // Dense, last dimension fastest.
  TensorView(void* data_, DType dtype_, std::initializer_list<std::int64_t> shape_);

  bool present() const { return dims >= 0; }
  bool empty() const { return elements() == 0; }
  // Also defined for views that every operation refuses: too many dimensions, or a product past 64 bits, which stays at the largest.
  std::int64_t elements() const {
    if (dims < 0) return 0;
    std::int64_t n = 1;
    for (int d = 0; d < dims && d < kMaxDims; ++d) {
      if (__builtin_mul_overflow(n, shape[static_cast<std::size_t>(d)], &n)) return INT64_MAX;
    }
    return n;
  }
};

// What went wrong, in the words of the contract (docs/operations.md, "Errors").
enum class ErrorKind : std::uint8_t {
  ok,
  invalid_argument,  // shape, stride, dtype, missing or surplus argument
  out_of_range,      // an index, offset or count
  unsupported,       // this op, dtype or shape on this backend; query_support answers the same beforehand
  bad_state,         // the call does not fit what happened before it
  device_error,      // the device or its driver failed
};

const char* name_of(ErrorKind kind);  // "invalid_argument", ...

// Result of the functions that do not throw. `message` names operation, argument, what was got and what was expected.
struct [[nodiscard]] Status {
  ErrorKind kind = ErrorKind::ok;
  std::string message;

  bool ok() const { return kind == ErrorKind::ok; }
};

// The one exception type of the C++ API. Nothing has been written when it is thrown.
class Error : public std::exception {
 public:
  explicit Error(Status status) : status_(std::move(status)) {}
  ErrorKind kind() const { return status_.kind; }
  const char* what() const noexcept override { return status_.message.c_str(); }

 private:
  Status status_;
};

// Where operations run. All give the same bits.
enum class Backend : std::uint8_t { cpu, cuda, sycl };

const char* name_of(Backend backend);  // "cpu", ...

// Operations as a DeviceFlag names them.
enum class Operation : std::int32_t {
  split_projections = 1,
  causal_conv1d,
  causal_conv1d_window,
  gated_delta_rule,
  gated_delta_rule_snapshots,
  gated_delta_rule_verify,
  commit_plan,
  commit_plan_groups,
  commit,
  materialize,
  align_move,
  align_advance,
  short_conv,
  gdn_attention,
};

const char* name_of(Operation operation);  // "split_projections", ...

// What a device found wrong in index contents, which the host cannot look at before a launch. The row in question became a null row, a
// dead row, or wrote nothing (docs/operations.md, "Errors"). Sticky: the first finding stays until the caller clears `code`.
struct DeviceFlag {
  std::int32_t code = 0;   // an ErrorKind; 0: nothing found
  std::int32_t op = 0;     // an Operation
  std::int32_t layer = 0;  // index among the call's layers; 0 where a call has one
  std::int32_t row = 0;    // index among the call's rows; of gdn_attention, within its part
};

// Instruction sets of the CPU backend. All give the same bits.
enum class Target : std::uint8_t { best, portable, avx2, avx512 };

const char* name_of(Target target);  // "portable", ...

// Runs body(context, task, worker) for every task in 0..tasks-1, in any order, and returns when all are done. `worker` is below
// `workers` and no two tasks run at once with the same worker number; body does not throw. The default runs in the calling thread.
struct ParallelFor {
  using Body = void (*)(void* context, std::int64_t task, int worker);

  void (*run)(void* self, std::int64_t tasks, Body body, void* context) = nullptr;
  void* self = nullptr;
  int workers = 1;
};

// Scratch memory of one call: at least workspace_size() bytes, aligned to kWorkspaceAlignment. Contents mean nothing before and
// after the call. Calls that run at the same time need separate workspaces.
constexpr std::size_t kWorkspaceAlignment = 64;

struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// Bytes of algorithmic traffic: every tensor element counted once for each time the operation has to read or write it, for the rows
// really processed. Null, dead and empty rows count 0. A call adds to what is there. Unit: bytes, but for rows and tokens.
struct Counters {
  std::int64_t rows = 0;
  std::int64_t tokens = 0;
  std::int64_t state_read = 0, state_written = 0;
  std::int64_t record_read = 0, record_written = 0;
  std::int64_t line_read = 0, line_written = 0;
  std::int64_t activation_read = 0, activation_written = 0;

  std::int64_t total() const {
    return state_read + state_written + record_read + record_written + line_read + line_written + activation_read +
           activation_written;
  }
};

// How one call runs. Backend, threads, target and workspace never change a result's bits.
//
// Backend::cuda, sycl: every tensor and the workspace are memory of the current device; the call puts its kernels on `stream` and returns.
// It neither allocates nor synchronises (but see docs/sycl.md on the first call of a kind), and may be captured into a graph. Index contents are read by the kernels alone: what they find
// wrong goes to `flag`. `parallel`, `target` and `counters` are of the CPU (counters: refused, nobody could count without reading back).
struct Launch {
  Workspace workspace{};
  ParallelFor parallel{};
  Target target = Target::best;
  Counters* counters = nullptr;  // optional, added to
  Backend backend = Backend::cpu;
  void* stream = nullptr;      // a cudaStream_t, or an in-order sycl::queue*; null: the default one
  DeviceFlag* flag = nullptr;  // optional, in memory the device can write
};

// Whether this build on this machine can run an operation with these arguments, and if not, why.
struct Support {
  bool supported = true;
  std::string reason;
};

}  // namespace recoverssm
