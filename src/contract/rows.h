// Shape rules of the rows of a call, shared by all operations that have rows.
#pragma once

#include <cstdint>

#include "contract/check.h"
#include "recoverssm/rows.hpp"

namespace recoverssm {

enum class RowsKind : std::uint8_t {
  plain,      // state_indices [N]; has_initial_state and num_accepted are optional
  windows,    // state_indices [N], window_capacity >= 1; no has_initial_state
  snapshots,  // state_indices [N, S], num_accepted required; no has_initial_state
};

// `part` prefixes the names: "" or a part of gdn_attention.
void check_rows(Check& check, const Name& part, const Rows& rows, RowsKind kind);

// N, from offsets that have been checked.
inline std::int64_t row_count(const Rows& rows) { return rows.query_start_loc.shape[0] - 1; }

// One-dimensional index data of a given or any length.
void check_indices(Check& check, const Name& name, const TensorView& view, const Dim& length);
void check_optional_indices(Check& check, const Name& name, const TensorView& view, const Dim& length);

}  // namespace recoverssm
