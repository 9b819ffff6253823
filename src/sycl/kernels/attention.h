// gdn_attention's first launch of a part: looks at the rows, and moves z, b and a of every token of every row, null rows included.
#pragma once

#include "device/attention.h"
#include "sycl/kernels/work_group.h"

namespace recoverssm::sycl_backend {

template <class Bits>
void move_token(const device::PartArgs& args, std::int64_t local, std::int64_t id, std::int64_t step) {
  const device::PackedSizes& s = args.sizes;
  const std::int64_t global = device::global_row(args.rows, local);
  const auto copy = [](std::byte* to, const std::byte* from) {
    *reinterpret_cast<Bits*>(to) = *reinterpret_cast<const Bits*>(from);
  };
  for (std::int64_t e = id; e < s.HV * s.V; e += step) {
    copy(device::at(args.z, global, e / s.V, e % s.V), device::at(args.qkvz, global, device::z_column(s, e / s.V, e % s.V)));
  }
  for (std::int64_t j = id; j < s.HV; j += step) {
    copy(device::at(args.b, local, j), device::at(args.ba, global, device::b_column(s, j)));
    copy(device::at(args.a, local, j), device::at(args.ba, global, device::a_column(s, j)));
  }
}

// Range: rows, shares of a row's tokens.
inline void rows_body(const ::sycl::nd_item<3>& item, const device::PartArgs& args) {
  const auto i = static_cast<std::int64_t>(item.get_group(1));
  const auto id = static_cast<std::int64_t>(item.get_local_id(2)), step = static_cast<std::int64_t>(item.get_local_range(2));
  const auto share = static_cast<std::int64_t>(item.get_group(2)), shares = static_cast<std::int64_t>(item.get_group_range(2));
  device::LineUse use;
  DeviceRow row = device::look_at_row(args, i, use);
  drop_bad_tokens(item, args.rows, row);
  report_row(item, args.rows, row, i);
  if (share == 0 && id == 0) {
    args.ids[i] = row.kind == DeviceRowKind::live ? use.block : args.rows.null_block_id;
    args.counts[i] = use.count;
  }
  for (std::int64_t t = share; t < row.length; t += shares) {
    if (size_of(args.z.dtype) == 4) {
      move_token<std::uint32_t>(args, row.begin + t, id, step);
    } else {
      move_token<std::uint16_t>(args, row.begin + t, id, step);
    }
  }
}

}  // namespace recoverssm::sycl_backend

#define RSSM_ATTENTION_KERNELS(KERNEL) KERNEL(rows, recoverssm::device::PartArgs, recoverssm::sycl_backend::rows_body)
#if defined(RSSM_AT_RUN_TIME)
RSSM_ATTENTION_KERNELS(RSSM_KERNEL)
#endif
