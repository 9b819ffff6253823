// Rows cut into segments on the device; the cut is select.h's.
#pragma once

#include <cstdint>

#include "cuda/line.cuh"
#include "cuda/select.h"

namespace recoverssm::cuda {

// Tokens first..end-1 of row i, counted from the row's first token. None: first = end.
struct RowSegment {
  LineRow line_row;
  std::int64_t i = -1;
  std::int64_t number = 0;  // of the segment in its row
  std::int64_t first = 0, end = 0;
};

// The row that has local token `mark`, and a token before it; -1: there is none. All threads of a block look together. Where offsets
// decrease, several rows may have the token; any of them may be found.
__device__ inline std::int64_t row_around(const RowsArgs& rows, std::int64_t mark) {
  __shared__ int found;
  __syncthreads();  // the last answer has been read
  if (threadIdx.x == 0) found = -1;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < rows.rows; i += blockDim.x) {
    const std::int64_t begin = i32_at(rows.query_start_loc, i), end = i32_at(rows.query_start_loc, i + 1);
    if (begin >= 0 && begin < mark && mark < end && end <= rows.tokens) atomicMax(&found, static_cast<int>(i));
  }
  __syncthreads();
  return found;
}

// Item 0..rows-1: the first segment of that row. Item rows + e: extra item e. Called by all threads of a block with one item.
__device__ __forceinline__ RowSegment segment_of_item(const RowsArgs& rows, const LineArgs& line, const Segments& cut,
                                                      std::int64_t item) {
  RowSegment s;
  std::int64_t mark = 0;
  if (item < rows.rows) {
    s.i = item;
  } else {
    mark = mark_of(item - rows.rows, cut.segment);
    s.i = row_around(rows, mark);
    if (s.i < 0) return s;
  }
  s.line_row = line_row(rows, line, s.i);
  report_row(rows, s.line_row.row, s.i);
  const DeviceRow& row = s.line_row.row;
  if (row.kind == DeviceRowKind::skip) return s;
  if (item >= rows.rows) {
    s.number = segment_of_mark(mark, row.begin, cut.segment);
    if (s.number * cut.segment >= row.length) return s;
    s.first = s.number * cut.segment;
  }
  s.end = row.length - s.first > cut.segment ? s.first + cut.segment : row.length;
  return s;
}

__device__ __forceinline__ bool is_whole(const RowSegment& s) { return s.end - s.first == s.line_row.row.length; }

}  // namespace recoverssm::cuda
