// Replay of a row of records into a tile: what commit does, and the first half of the lazy form.
#pragma once

#include "sycl/kernels/delta.h"

namespace recoverssm::sycl_backend {

// Records 0..n-1 of a head in `block` into value rows value..value+3. `prepared`: keys and decays of all n are in local memory already.
// after(t): once the tile holds the state after record t. Returns whether all n are there now.
template <class D, class After>
RSSM_HOST_DEVICE bool fold_records(const LanesOf<D>& lanes, Tile<D>& tile, const RecordArgs& records, const GateArgs& gate,
                                   float* tokens, int token_chunk, std::int64_t block, int head, int n, int value, int K, int V,
                                   bool prepared, After&& after) {
  const View& corrections = D::kKda ? records.corrections : records.packed;
  for (int first = 0; first < n; first += token_chunk) {
    const int count = n - first < token_chunk ? n - first : token_chunk;
    if (!prepared) {
      lanes.barrier();  // local memory may still be read
      prepare_records<D>(lanes, records, gate, tokens, block, head, first, count, K, V);
    }
    for (int t = 0; t < count; ++t) {
      const float* const record = reinterpret_cast<const float*>(at(corrections, block, head, first + t));
      replay_record<D>(lanes, tile, tokens + t * D::kTokenFloats, record, value, V);
      after(first + t);
    }
  }
  return n <= token_chunk;
}

}  // namespace recoverssm::sycl_backend
