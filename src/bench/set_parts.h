// Parts that the data sets share: rows, rule inputs, records, layers. Block ids count from 0: no block is null.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>

#include "bench/data_set.h"

namespace recoverssm::bench {

constexpr std::int32_t kNull = -1;

// A data set of Params and of what its spans point to.
template <class Params>
struct Call : DataSet {
  Params params{};
  std::vector<Layer> layers;
  std::vector<CommitGroup> groups;
  std::vector<PlanGroup> plans;
  TensorView counts{};  // set to `count` before every call, where present
  std::int32_t count = 0;

  Status check() const override {
    Status status = validate(params);
    if (!status.ok()) return status;
    const Support support = query_support(params);
    return support.supported ? status : Status{ErrorKind::unsupported, support.reason};
  }
  std::size_t workspace(const Launch& launch) const override { return workspace_size(params, launch); }
  Status run(const Launch& launch) const override { return recoverssm::run(params, launch); }
  void rearm(Device* device) const override {
    auto* values = static_cast<std::int32_t*>(counts.data);
    if (device != nullptr) return device->set_words(values, count, counts.elements());
    for (std::int64_t i = 0; i < counts.elements(); ++i) values[i] = count;
  }
};

// Several calls, one after the other.
struct Calls : DataSet {
  std::vector<std::unique_ptr<DataSet>> calls;

  Status check() const override {
    for (const auto& call : calls) {
      if (Status status = call->check(); !status.ok()) return status;
    }
    return {};
  }
  std::size_t workspace(const Launch& launch) const override {
    std::size_t bytes = 0;
    for (const auto& call : calls) bytes = std::max(bytes, call->workspace(launch));
    return bytes;
  }
  Status run(const Launch& launch) const override {
    for (const auto& call : calls) {
      if (Status status = call->run(launch); !status.ok()) return status;
    }
    return {};
  }
  void rearm(Device* device) const override {
    for (const auto& call : calls) call->rearm(device);
  }
};

inline std::vector<std::int32_t> counting(std::int64_t n, std::int32_t first = 0, std::int32_t step = 1) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<std::int32_t>(i) * step;
  return values;
}

inline TensorView offsets(const Shape& s, Arena& arena) { return arena.ints(counting(s.rows + 1, 0, s.tokens)); }

// Row i has `tokens` tokens and block i.
inline Rows rows_of(const Shape& s, Arena& arena) {
  Rows rows;
  rows.query_start_loc = offsets(s, arena);
  rows.state_indices = arena.ints(counting(s.rows));
  rows.window_capacity = static_cast<std::int32_t>(s.window());
  rows.null_block_id = kNull;
  return rows;
}

inline std::int64_t line_columns(const Shape& s, std::int64_t history) {
  return history + s.window() - (s.line_kind == LineKind::rolled ? 1 : 0);
}

inline TensorView conv_line(const Shape& s, std::int64_t blocks, std::int64_t columns, Arena& arena) {
  return arena.values(s.activation, {blocks, columns, s.channels()});
}

inline TensorView states(const Shape& s, std::int64_t blocks, Arena& arena) {
  return arena.values(s.state, {blocks, s.HV, s.V, s.K});
}

// Between 0 and 1, as decays are; corrections and keys do not mind.
inline Records records_of(const Shape& s, std::int64_t blocks, Arena& arena) {
  Records records;
  if (s.gate == Gate::gdn) {
    records.packed = arena.values(DType::f32, {blocks, s.HV, s.window(), s.V + s.K + 1}, 0.02F, 0.98F);
  } else {
    records.corrections = arena.values(DType::f32, {blocks, s.HV, s.window(), s.V});
    records.key_gate = arena.values(s.activation, {blocks, s.HV, s.window(), 2 * s.K});
  }
  return records;
}

inline TensorView gate_logs(const Shape& s, Arena& arena) { return arena.values(DType::f32, {s.HV}); }

inline TensorView gate_bias(const Shape& s, Arena& arena) {
  return s.gate == Gate::gdn ? arena.values(DType::f32, {s.HV}) : arena.values(DType::f32, {s.HV, s.K});
}

inline TensorView outputs(const Shape& s, Arena& arena) {
  return arena.values(s.activation, {static_cast<std::int64_t>(s.rows) * s.tokens, s.HV, s.V});
}

}  // namespace recoverssm::bench
