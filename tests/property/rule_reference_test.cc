// The delta rules against the float64 reference, over random shapes, strides, lengths, null rows and counts. Each property also checks
// that nothing but what the operation writes has changed, and that null rows give exactly +0.
#include <gtest/gtest.h>

#include "support/call.h"
#include "support/convert.h"
#include "support/rule.h"

namespace {

using namespace support;
using reference::Matrix;
using reference::Step;

struct Case {
  RuleShape shape;
  RuleWeights weights;
  RowSet rows;
  RowTensors index;
  RuleTokens tokens;
  RulePool pool;
  Tensor out;
};

Case random_case(Pick& pick, const RowOptions& options) {
  Case c;
  c.shape = random_rule_shape(pick);
  c.weights = random_weights(pick, c.shape);
  c.rows = random_rows(pick, options);
  c.index = row_tensors(pick, c.rows);
  c.tokens = random_tokens(pick, c.shape, c.rows.tokens);
  c.pool = random_pool(pick, c.shape, c.rows.pool_blocks, options.capacity);
  c.out = random_out(pick, c.shape, c.rows.global_rows);
  pick.log(c.shape.text());
  pick.log(c.rows.text());
  return c;
}

Untouched watch(const Case& c) {
  std::vector<Untouched::Watch> watches = c.pool.watches();
  for (const Untouched::Watch& w : std::vector<Untouched::Watch>{{"out", c.out},
                                                                 {"q", c.tokens.q},
                                                                 {"k", c.tokens.k},
                                                                 {"v", c.tokens.v},
                                                                 {"a", c.tokens.a},
                                                                 {"b", c.tokens.b},
                                                                 {"A_log", c.weights.A_log},
                                                                 {"dt_bias", c.weights.dt_bias},
                                                                 {"query_start_loc", c.index.query_start_loc},
                                                                 {"state_indices", c.index.state_indices},
                                                                 {"num_accepted", c.index.num_accepted}}) {
    watches.push_back(w);
  }
  return Untouched(watches);
}

// The outputs of row i may be written; those of a null row are +0 afterwards.
void outputs_of_rows(const Case& c, Untouched& untouched) {
  for (int i = 0; i < c.rows.rows(); ++i) {
    for (int t = 0; t < c.rows.length(i); ++t) untouched.except(slice(c.out, 0, c.rows.global(c.rows.first(i) + t)));
  }
}

void null_rows_are_zero(const Case& c) {
  for (int i = 0; i < c.rows.rows(); ++i) {
    if (!c.rows.null(i)) continue;
    for (int t = 0; t < c.rows.length(i); ++t) {
      require(all_zero_bits(slice(c.out, 0, c.rows.global(c.rows.first(i) + t))), "output of a null row");
    }
  }
}

void out_is_near(const Case& c, int token, int head, const Step& step) {
  for (int v = 0; v < c.shape.V; ++v) {
    require(near(c.out.get(c.rows.global(token), head, v), step.out[static_cast<std::size_t>(v)], c.shape.out, kRuleTolerance),
            "out of token " + std::to_string(token) + " head " + std::to_string(head) + " v " + std::to_string(v));
  }
}

void state_is_near(const Tensor& state, int block, int head, const Matrix& expected) {
  for (int v = 0; v < expected.rows; ++v) {
    for (int k = 0; k < expected.columns; ++k) {
      require(near(state.get(block, head, v, k), expected.at(v, k), state.dtype(), kRuleTolerance),
              "state of block " + std::to_string(block) + " head " + std::to_string(head) + " v " + std::to_string(v) + " k " +
                  std::to_string(k));
    }
  }
}

TEST(RuleReference, PlainRows) {
  property(250, [](Pick& pick) {
    RowOptions options;
    options.max_length = 10;
    options.initial = true;
    const Case c = random_case(pick, options);
    std::vector<std::vector<Matrix>> start(static_cast<std::size_t>(c.rows.rows()));
    for (int i = 0; i < c.rows.rows(); ++i) {
      if (!c.rows.live(i)) continue;
      for (int j = 0; j < c.shape.HV; ++j) {
        start[static_cast<std::size_t>(i)].push_back(c.rows.from_state(i) ? matrix_of(c.pool.state, c.rows.block(i), j)
                                                                          : Matrix(c.shape.V, c.shape.K));
      }
    }
    Untouched untouched = watch(c);
    outputs_of_rows(c, untouched);
    for (int i = 0; i < c.rows.rows(); ++i) {
      if (c.rows.live(i)) untouched.except(slice(c.pool.state, 0, c.rows.block(i)));
    }

    must_run(
        recoverssm::GatedDeltaRuleParams{
            inputs_of(c.shape, c.weights, c.tokens), c.pool.state, c.out, rows_of(c.rows, c.index), {}, {}},
        random_how(pick));

    require(untouched.check());
    null_rows_are_zero(c);
    for (int i = 0; i < c.rows.rows(); ++i) {
      if (!c.rows.live(i)) continue;
      for (int j = 0; j < c.shape.HV; ++j) {
        Matrix& state = start[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        const reference::Head head = head_of(c.shape, c.weights, j);
        for (int t = 0; t < c.rows.length(i); ++t) {
          const int token = c.rows.first(i) + t;
          out_is_near(c, token, j, reference::advance(head, token_of(c.shape, c.tokens, token, j), state));
        }
        state_is_near(c.pool.state, c.rows.block(i), j, state);
      }
    }
  });
}

TEST(RuleReference, Verify) {
  property(250, [](Pick& pick) {
    RowOptions options;
    options.capacity = pick.between(1, 16);
    const Case c = random_case(pick, options);
    Untouched untouched = watch(c);
    outputs_of_rows(c, untouched);
    for (int i = 0; i < c.rows.rows(); ++i) {
      if (!c.rows.live(i)) continue;
      for (const TensorView& part : c.pool.record_slices(c.rows.block(i), 0, c.rows.length(i))) untouched.except(part);
    }

    must_run(
        recoverssm::GatedDeltaRuleVerifyParams{
            inputs_of(c.shape, c.weights, c.tokens), c.pool.state, c.out, c.pool.records(), rows_of(c.rows, c.index), {}},
        random_how(pick));

    require(untouched.check());  // the checkpoints, records of other blocks and of tokens behind the window
    null_rows_are_zero(c);
    for (int i = 0; i < c.rows.rows(); ++i) {
      if (!c.rows.live(i)) continue;
      const int block = c.rows.block(i);
      for (int j = 0; j < c.shape.HV; ++j) {
        Matrix state = matrix_of(c.pool.state, block, j);
        const reference::Head head = head_of(c.shape, c.weights, j);
        for (int t = 0; t < c.rows.length(i); ++t) {
          const int token = c.rows.first(i) + t;
          const reference::Token input = token_of(c.shape, c.tokens, token, j);
          const Step step = reference::advance(head, input, state);
          out_is_near(c, token, j, step);
          const auto record_near = [&](double got, double expected, const char* what) {
            require(near(got, expected, DType::f32, kRuleTolerance), std::string("record ") + what);
          };
          const Tensor& corrections = c.shape.kda() ? c.pool.corrections : c.pool.packed;
          for (int v = 0; v < c.shape.V; ++v) {
            record_near(corrections.get(block, j, t, v), step.correction[static_cast<std::size_t>(v)], "correction");
          }
          for (int k = 0; k < c.shape.K; ++k) {
            const auto u = static_cast<std::size_t>(k);
            if (c.shape.kda()) {  // raw inputs, bit for bit
              require(c.pool.key_gate.get(block, j, t, k) == input.k[u], "record key is the raw key");
              require(c.pool.key_gate.get(block, j, t, c.shape.K + k) == input.gate[u], "record gate is the raw gate input");
            } else {
              record_near(c.pool.packed.get(block, j, t, c.shape.V + k), step.key[u], "key");
            }
          }
          if (!c.shape.kda()) record_near(c.pool.packed.get(block, j, t, c.shape.V + c.shape.K), step.decay[0], "decay");
        }
      }
    }
  });
}

TEST(RuleReference, Snapshots) {
  property(250, [](Pick& pick) {
    RowOptions options;
    options.capacity = pick.between(1, 8);
    options.accepted = true;
    Case c = random_case(pick, options);
    // Column ids: the start column first, then a block or a null id for every token. Columns past the length hold anything.
    const int S = c.rows.capacity;
    c.rows.snapshots = true;
    c.rows.pool_blocks = c.rows.null_id + 1 + c.rows.rows() * (S + 1) + 1;
    const std::vector<int> ids = pick.distinct(c.rows.rows() * (S + 1), c.rows.null_id + 1, c.rows.pool_blocks - 1);
    for (int i = 0; i < c.rows.rows(); ++i) {
      std::vector<int> columns;
      for (int t = 0; t < S; ++t) {
        const bool null_column = pick.chance(15);
        columns.push_back(t >= c.rows.length(i) && pick.chance(50) ? 9999
                          : null_column                            ? c.rows.null_id - pick.between(0, 1)
                                                                   : ids[static_cast<std::size_t>(i * (S + 1) + t)]);
      }
      if (c.rows.length(i) > 0) {
        int& count = c.rows.accepted[static_cast<std::size_t>(i)];
        count = pick.between(-1, S);  // also of a null row: the count selects the start id
        int& start = columns[static_cast<std::size_t>(std::max(count - 1, 0))];
        if (c.rows.null(i)) {
          start = c.rows.block(i);
        } else if (start == 9999 || start <= c.rows.null_id) {
          start = ids[static_cast<std::size_t>(i * (S + 1) + S)];
        }
        c.rows.blocks[static_cast<std::size_t>(i)] = start;
      }
      c.rows.columns.push_back(columns);
    }
    c.index = row_tensors(pick, c.rows);
    c.pool = random_pool(pick, c.shape, c.rows.pool_blocks, 0);
    std::vector<std::vector<Matrix>> start(static_cast<std::size_t>(c.rows.rows()));
    Untouched untouched = watch(c);
    outputs_of_rows(c, untouched);
    for (int i = 0; i < c.rows.rows(); ++i) {
      if (!c.rows.live(i)) continue;
      for (int j = 0; j < c.shape.HV; ++j)
        start[static_cast<std::size_t>(i)].push_back(matrix_of(c.pool.state, c.rows.block(i), j));
      for (int t = 0; t < c.rows.length(i); ++t) {
        const int column = c.rows.columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(t)];
        if (column > c.rows.null_id) untouched.except(slice(c.pool.state, 0, column));
      }
    }

    must_run(recoverssm::GatedDeltaRuleSnapshotsParams{inputs_of(c.shape, c.weights, c.tokens), c.pool.state, c.out,
                                                       rows_of(c.rows, c.index)},
             random_how(pick));

    require(untouched.check());
    null_rows_are_zero(c);
    for (int i = 0; i < c.rows.rows(); ++i) {
      if (!c.rows.live(i)) continue;
      for (int j = 0; j < c.shape.HV; ++j) {
        Matrix& state = start[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        const reference::Head head = head_of(c.shape, c.weights, j);
        for (int t = 0; t < c.rows.length(i); ++t) {
          const int token = c.rows.first(i) + t;
          out_is_near(c, token, j, reference::advance(head, token_of(c.shape, c.tokens, token, j), state));
          const int column = c.rows.columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(t)];
          if (column > c.rows.null_id) state_is_near(c.pool.state, column, j, state);
        }
      }
    }
  });
}

}  // namespace
