// What a work-group finds out together about its row.
#pragma once

#include "sycl/kernels/report.h"

namespace recoverssm::sycl_backend {

// Called by all work items of a work-group with one row: a row with a token_index entry that names no row writes nothing.
inline void drop_bad_tokens(const ::sycl::nd_item<3>& item, const device::RowsArgs& args, DeviceRow& row) {
  if (!args.token_index.present || row.kind == DeviceRowKind::skip) return;
  bool bad = false;
  const auto step = static_cast<std::int64_t>(item.get_local_range(2));
  for (auto t = static_cast<std::int64_t>(item.get_local_id(2)); t < row.length; t += step)
    bad = bad || !device::names_a_row(args, row.begin + t);
  if (::sycl::any_of_group(item.get_group(), bad)) device::drop_row(row);
}

inline void report_row(const ::sycl::nd_item<3>& item, const device::RowsArgs& args, const DeviceRow& row, std::int64_t i) {
  if (item.get_local_id(2) == 0) report(args.reporter, row.found, i);
}

}  // namespace recoverssm::sycl_backend
