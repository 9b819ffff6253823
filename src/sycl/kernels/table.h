// Tables that are too large for a kernel's parameters (an Intel GPU has 2048 bytes of them) lie in the workspace. A launch of this kernel
// writes the next piece: the bytes are its parameter, so that nothing is left for the host to keep or to wait for, captured or not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sycl/kernels/entry.h"

namespace recoverssm::sycl_backend {

constexpr int kPieceWords = 224;

struct PieceArgs {
  std::uint64_t words[kPieceWords];
  std::uint64_t* to = nullptr;
  std::int64_t count = 0;
};

inline void write_piece(const ::sycl::nd_item<3>& item, const PieceArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_global_id(2));
  if (i < args.count) args.to[i] = args.words[i];
}

}  // namespace recoverssm::sycl_backend

#define RSSM_TABLE_KERNELS(KERNEL) KERNEL(piece, recoverssm::sycl_backend::PieceArgs, recoverssm::sycl_backend::write_piece)
#if defined(RSSM_AT_RUN_TIME)
RSSM_TABLE_KERNELS(RSSM_KERNEL)
#endif
