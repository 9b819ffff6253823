// Address space without memory behind it: strides of many gigabytes cost only the pages that are touched, and which pages were touched
// says where an operation went.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "support/tensor.h"

namespace reports {

class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ok()) madvise(data_, bytes, MADV_NOHUGEPAGE);  // a huge page would hide what lies beside the element
  }
  ~SparseMemory() {
    if (ok()) munmap(data_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  std::byte* data() { return static_cast<std::byte*>(data_); }

  // Only pages that hold elements of `view` have been read or written.
  ::testing::AssertionResult only_touched(const support::TensorView& view) const {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> resident((bytes_ + page - 1) / page);
    if (mincore(data_, bytes_, resident.data()) != 0) {
      std::printf("pages are not looked at: mincore: %s\n", std::strerror(errno));
      return ::testing::AssertionSuccess();
    }
    support::for_each(view, [&](const support::Index& i) {
      const auto at = static_cast<std::size_t>(support::element(view, i) - static_cast<std::byte*>(data_));
      resident[at / page] = 0;
    });
    const void* stray = std::memchr(resident.data(), 1, resident.size());
    if (stray == nullptr) return ::testing::AssertionSuccess();
    const auto number = static_cast<std::size_t>(static_cast<const unsigned char*>(stray) - resident.data());
    return ::testing::AssertionFailure() << "byte " << number * page << " of " << bytes_ << " was touched, no element lies there";
  }

 private:
  void* data_;
  std::size_t bytes_;
};

// A tensor's bits with another stride in one dimension, in memory of its own.
struct FarTensor {
  std::unique_ptr<SparseMemory> memory;
  support::TensorView view;

  bool ok() const { return memory->ok(); }
};

inline FarTensor far_copy(const support::TensorView& from, int dim, std::int64_t stride) {
  // Dense but for `dim`, which becomes the outermost in memory.
  support::TensorView view = from;
  std::int64_t next = 1;
  for (int d = from.dims - 1; d >= 0; --d) {
    if (d == dim) continue;
    view.stride[static_cast<std::size_t>(d)] = next;
    next *= from.shape[static_cast<std::size_t>(d)];
  }
  view.stride[static_cast<std::size_t>(dim)] = stride;
  const std::int64_t elements = stride * (from.shape[static_cast<std::size_t>(dim)] - 1) + next;
  FarTensor far{std::make_unique<SparseMemory>(static_cast<std::size_t>(elements * recoverssm::size_of(from.dtype))), view};
  if (!far.ok()) return far;
  far.view.data = far.memory->data();
  support::copy_bits(from, far.view);
  return far;
}

}  // namespace reports
