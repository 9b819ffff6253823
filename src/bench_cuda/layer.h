// One layer's tensors on the device, and the operations of a step over them, for the benchmark.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench_cuda/kernels.h"
#include "recoverssm/recoverssm.hpp"

namespace recoverssm::bench_cuda {

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
inline void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

// Device memory that lives as long as this object.
class Memory {
 public:
  // managed: the host may read and write it too, which the comparison with the CPU does.
  Memory(std::size_t bytes, bool managed) {
    if (managed) {
      check(cudaMallocManaged(&data_, bytes == 0 ? 1 : bytes), "cudaMallocManaged");
    } else {
      check(cudaMalloc(&data_, bytes == 0 ? 1 : bytes), "cudaMalloc");
    }
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// What a case varies.
struct Shape {
  std::int64_t rows = 8;
  std::int64_t window = 4;  // L = S of every row
  DType state = DType::f32;
  DType activation = DType::bf16;
  Gate gate = Gate::gdn;
  std::int64_t H = 16, HV = 48, K = 128, V = 128, W = 4;

  std::int64_t tokens() const { return rows * window; }
  std::int64_t channels() const { return 2 * H * K + HV * V; }
  std::int64_t state_bytes() const { return HV * V * K * size_of(state); }
};

// A layer with a block a row (block 0 is the null block) and, for snapshots, one a token.
class LayerData {
 public:
  // blocks_per_row: 1, or S for snapshots; extra: blocks behind those, for boundaries and other finals.
  LayerData(const Shape& shape, std::int64_t blocks_per_row, std::int64_t extra, std::uint32_t seed, cudaStream_t stream,
            bool managed = false);

  GatedDeltaRuleVerifyParams verify(bool lazy) const;
  GatedDeltaRuleSnapshotsParams snapshots() const;
  GatedDeltaRuleParams plain() const;  // the tokens of all rows, read as plain rows
  CausalConv1dWindowParams conv() const;
  Layer layer(bool lazy) const;

  const Shape& shape() const { return shape_; }
  std::int64_t blocks() const { return blocks_; }
  // Everything there is, for a copy on the host: address and bytes.
  std::vector<std::pair<void*, std::size_t>> regions() const;

 private:
  TensorView add(DType dtype, std::initializer_list<std::int64_t> dims, float low, float high);
  TensorView add_i32(const std::vector<std::int32_t>& values, std::initializer_list<std::int64_t> dims);
  RuleInputs inputs() const;
  Rows rows() const;

  Shape shape_;
  std::int64_t blocks_;
  std::uint32_t seed_;
  cudaStream_t stream_;
  bool managed_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::pair<void*, std::size_t>> regions_;

 public:
  TensorView x, mixed, a, b, A_log, dt_bias, weight, out, state, line, packed, corrections, key_gate, pending;
  TensorView offsets, ids, table, accepted, lazy_accepted;
};

}  // namespace recoverssm::bench_cuda
