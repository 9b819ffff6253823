// split_projections: moves bits. A work item works out once where its elements lie and then goes through tokens.
#pragma once

#include "device/split_args.h"
#include "sycl/kernels/report.h"

namespace recoverssm::sycl_backend {

struct alignas(16) Bits128 {
  std::uint32_t words[4];
};

// Elements that a work item moves, of every token. Of the two steps at the destination one is 0. (With a flag that says which one counts the
// CPU device, compiler 2026.22.10, wrote to wrong rows.)
struct Run {
  const std::byte* from = nullptr;               // of global row 0
  std::byte* to = nullptr;                       // of row 0
  std::int64_t from_row = 0;                     // bytes from global row to global row
  std::int64_t to_global_row = 0, to_token = 0;  // from global row to global row, and from token to token
};

// Element `e` of a token's mixed_qkv and z: first the channels, then z's heads.
inline Run wide_run(const device::SplitArgs& args, std::int64_t e) {
  const device::PackedSizes& s = args.sizes;
  const std::int64_t C = device::qkv_channels(s);
  if (e < C) {
    return {device::at(args.qkvz, 0, device::qkv_column(s, e)), device::at(args.mixed_qkv, 0, e), args.qkvz.stride[0], 0,
            args.mixed_qkv.stride[0]};
  }
  const std::int64_t j = (e - C) / s.V, v = (e - C) % s.V;
  return {device::at(args.qkvz, 0, device::z_column(s, j, v)), device::at(args.z, 0, j, v), args.qkvz.stride[0], args.z.stride[0],
          0};
}

// Element `e` of a token's b and a.
inline Run narrow_run(const device::SplitArgs& args, std::int64_t e) {
  const device::PackedSizes& s = args.sizes;
  const bool is_b = e < s.HV;
  const std::int64_t j = is_b ? e : e - s.HV;
  const device::View& to = is_b ? args.b : args.a;
  return {device::at(args.ba, 0, is_b ? device::b_column(s, j) : device::a_column(s, j)), device::at(to, 0, j), args.ba.stride[0],
          0, to.stride[0]};
}

template <class Bits>
void move_tokens(const device::SplitArgs& args, const Run& run, std::int64_t begin, std::int64_t end, bool reports) {
  for (std::int64_t t = begin; t < end; ++t) {
    std::int64_t row = t;
    if (args.token_index.present) {
      row = device::i32_at(args.token_index, t);
      if (row < 0 || row >= args.global_rows) {  // its token writes nothing
        if (reports) report(args.reporter, ErrorKind::out_of_range, t);
        continue;
      }
    }
    *reinterpret_cast<Bits*>(run.to + row * run.to_global_row + t * run.to_token) =
        *reinterpret_cast<const Bits*>(run.from + row * run.from_row);
  }
}

// Range: shares of the tokens, work items over a token's elements.
inline void split_body(const ::sycl::nd_item<3>& item, const device::SplitArgs& args) {
  const auto id = static_cast<std::int64_t>(item.get_global_id(2));
  if (id >= args.items) return;
  const std::int64_t begin = static_cast<std::int64_t>(item.get_group(1)) * args.tokens_per_item;
  const std::int64_t end = min64(args.tokens, begin + args.tokens_per_item);
  const bool wide = id < args.wide_items, reports = id == 0;
  const Run run = wide ? wide_run(args, id * args.lanes) : narrow_run(args, id - args.wide_items);
  if (wide && args.lanes > 1) {
    move_tokens<Bits128>(args, run, begin, end, reports);
  } else if (size_of(args.qkvz.dtype) == 4) {
    move_tokens<std::uint32_t>(args, run, begin, end, reports);
  } else {
    move_tokens<std::uint16_t>(args, run, begin, end, reports);
  }
}

}  // namespace recoverssm::sycl_backend

#define RSSM_PROJECTIONS_KERNELS(KERNEL) KERNEL(split, recoverssm::device::SplitArgs, recoverssm::sycl_backend::split_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_PROJECTIONS_KERNELS(RSSM_KERNEL)
#endif
