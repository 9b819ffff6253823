// Contents rules that the delta rules and gdn_attention share.
#pragma once

#include "contract/contents_rows.h"

namespace recoverssm {

// The count of a live row's previous window and the pending count of its block, both at most S.
bool check_waiting_records(Check& check, const RowsContents& rows, const Name& pending_name, const TensorView& pending,
                           std::int64_t capacity, std::int64_t row, std::int32_t block);

// Snapshots rows: counts, the start id, and the columns t < L_i. Adds up to 1 + S uses a row.
void check_snapshot_rows(Check& check, const RowsContents& rows, std::int64_t blocks, ContentsMemory& memory);

}  // namespace recoverssm
