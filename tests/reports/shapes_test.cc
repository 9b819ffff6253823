// Shapes: head counts, head sizes, and what the library says it can run.
#include <gtest/gtest.h>

#include "reports/calls.h"

namespace {

using namespace reports;

// ---- B37: units that are no multiple of the heads -----------------------------------------------------------------------------------

// Every batch size against the reference, with guard bytes around every buffer.
TEST(Reports, B37_head_counts_and_batch_sizes) {
  for (const int HV : {24, 48}) {
    for (int batch = 1; batch <= 40; ++batch) {
      const Gate gate = batch % 5 == 0 ? Gate::kda : Gate::gdn;
      Model m(static_cast<std::uint64_t>(HV + batch),
              {.gate = gate, .H = 8, .HV = HV, .K = 4, .V = 3, .T = DType::bf16, .out = DType::bf16});
      std::vector<int> blocks;
      for (int i = 0; i < batch; ++i) blocks.push_back(i + 1);
      const std::vector<int> ones(blocks.size(), 1);
      matches_reference(m, rows_on(blocks, ones, 0), "HV " + std::to_string(HV) + " batch " + std::to_string(batch));
      // Windows over the same heads: records and outputs and nothing else.
      const RuleTokens tokens = m.tokens(batch);
      const RulePool pool = m.pool(batch + 1, 1), plain_pool = m.copy(pool);
      const Tensor out = m.out(batch), expected = m.out(batch);
      std::vector<Untouched::Watch> watches = pool.watches();
      watches.push_back({"out", out});
      Untouched untouched(watches);
      untouched.except(out);
      for (const int b : blocks) {
        for (const TensorView& part : pool.record_slices(b, 0, 1)) untouched.except(part);
      }
      m.verify(rows_on(blocks, ones, 1), tokens, pool, out);
      EXPECT_TRUE(untouched.check()) << "HV " << HV << " batch " << batch;
      m.plain(rows_on(blocks, ones, 0), tokens, plain_pool, expected);
      EXPECT_TRUE(same_bits(out, expected)) << "HV " << HV << " batch " << batch;
    }
  }
}

// ---- B55: head sizes and counts no kernel was cut for -------------------------------------------------------------------------------

TEST(Reports, B55_head_sizes) {
  for (const int K : {16, 48, 60, 64, 96, 100, 128, 160, 192, 256}) {
    for (const int V : {32, 64, 96, 128, 256}) {
      Model m(static_cast<std::uint64_t>(K * 1000 + V), {.gate = V == 64 ? Gate::kda : Gate::gdn, .H = 1, .HV = 1, .K = K, .V = V});
      matches_reference(m, one_row(2, 0), "K " + std::to_string(K) + " V " + std::to_string(V));
    }
  }
}

TEST(Reports, B55_head_counts) {
  for (const int HV : {1, 5, 16, 24, 48, 64, 128}) {
    for (const Gate gate : {Gate::gdn, Gate::kda}) {
      Model m(static_cast<std::uint64_t>(HV),
              {.gate = gate, .H = HV % 8 == 0 ? HV / 8 : HV, .HV = HV, .K = 16, .V = 8, .T = DType::bf16});
      matches_reference(m, one_row(2, 0), "HV " + std::to_string(HV));
    }
  }
  for (const auto& [H, HV] : {std::pair{3, 16}, std::pair{2, 5}, std::pair{16, 24}, std::pair{4, 2}, std::pair{5, 48}}) {
    Model m(55, {.H = 1, .HV = HV, .K = 16, .V = 8});
    RuleTokens tokens = m.tokens(2);
    tokens.q = tokens.k = dense(DType::f32, {2, H, 16});
    const RulePool pool = m.pool(2, 0);
    const Tensor out = m.out(2);
    const Untouched untouched({{"state", pool.state}, {"out", out}});
    EXPECT_EQ(m.try_plain(one_row(2, 0), tokens, pool, out).kind, ErrorKind::invalid_argument) << H << " " << HV;
    EXPECT_TRUE(untouched.check());
  }
}

// What stands behind the last element of an input in memory (NaN, 1e30, 0) never changes a bit of a result.
TEST(Reports, B55_memory_behind_the_inputs) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const int K : {1, 16, 31, 48, 60, 96, 100, 127, 160, 192, 256}) {
      for (const int HV : {1, 5, 24}) {
        Model m(static_cast<std::uint64_t>(K + HV), {.gate = gate, .H = 1, .HV = HV, .K = K, .V = 7});
        const RuleTokens tokens = m.tokens(2);
        const RulePool start = m.pool(2, 2);
        Tensor first_out;
        RulePool first_pool;
        for (const double behind : {0.0, std::nan(""), 1e30}) {
          RuleTokens padded = tokens;
          std::vector<Tensor*> parts = {&padded.q, &padded.k, &padded.v, &padded.a, &padded.b};
          Model far = m;
          parts.push_back(&far.weights.A_log);
          parts.push_back(&far.weights.dt_bias);
          for (Tensor* part : parts) {
            const Tensor flat = dense(part->dtype(), {part->view.elements() + 64});
            flat.fill(behind);
            Tensor copy = flat;
            copy.view = part->view;
            copy.view.data = flat.view.data;
            std::int64_t stride = 1;
            for (int d = part->view.dims - 1; d >= 0; --d) {
              copy.view.stride[static_cast<std::size_t>(d)] = stride;
              stride *= part->view.shape[static_cast<std::size_t>(d)];
            }
            copy_bits(*part, copy);
            *part = copy;
          }
          const RulePool pool = m.copy(start);
          const Tensor out = m.out(2);
          far.verify(one_row(2, 2), padded, pool, out);
          far.commit(1, 2, pool);
          if (!first_out.present()) {
            first_out = out;
            first_pool = pool;
            continue;
          }
          EXPECT_TRUE(same_bits(out, first_out)) << "K " << K << " HV " << HV << " behind " << behind;
          EXPECT_TRUE(same_bits(slice(pool.state, 0, 1), slice(first_pool.state, 0, 1))) << "K " << K << " HV " << HV;
        }
      }
    }
  }
}

// ---- B68: what the library says it can run ------------------------------------------------------------------------------------------

constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};

// Every (gate, T, state, out) that query_support affirms runs on every target of this machine and matches the reference; verify with
// commit and snapshots give the bits of the plain call.
TEST(Reports, B68_every_yes_matches_the_reference) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const DType T : kFloats) {
      for (const DType state : kFloats) {
        for (const DType out_dtype : {T, DType::f32}) {
          Model m(
              68,
              {.gate = gate, .H = 2, .HV = 4, .K = 20, .V = 6, .T = T, .state = state, .out = out_dtype, .A_log = T, .dt_bias = T});
          const std::string what = std::string(name_of(T)) + " state " + name_of(state) + " out " + name_of(out_dtype);
          matches_reference(m, rows_on({1, 2}, {3, 1}, 0), what);
          const RuleTokens tokens = m.tokens(3);
          const RulePool start = m.pool(5, 3);
          const RowSet rows = one_row(3, 3), plain = one_row(3, 0), snapshots = snapshot_rows({{2, 3, 1}}, {3}, {3});
          const RowTensors index = row_tensors(m.pick, rows), snapshot_index = row_tensors(m.pick, snapshots);
          const recoverssm::RuleInputs inputs = inputs_of(m.shape, m.weights, tokens);
          const RulePool plain_pool = m.copy(start);
          const Tensor expected = m.out(3);
          m.plain(plain, tokens, plain_pool, expected);
          for (const recoverssm::Target target : recoverssm::available_targets()) {
            const RulePool pool = m.copy(start), other = m.copy(start);
            const Tensor out = m.out(3), snapshot_out = m.out(3);
            const recoverssm::GatedDeltaRuleVerifyParams verify{inputs, pool.state, out, pool.records(), rows_of(rows, index), {}};
            const recoverssm::GatedDeltaRuleSnapshotsParams snapshot{inputs, other.state, snapshot_out,
                                                                     rows_of(snapshots, snapshot_index)};
            PlanArrays plan;
            plan.add(1, 3);
            const PlanTensors arrays = plan_tensors(m.pick, plan);
            const std::array groups = {arrays.group()};
            const std::array layers = {layer_of(m.shape, m.weights, pool)};
            const recoverssm::CommitParams commit{groups, layers, 3, 0};
            for (const recoverssm::Support& answer : {query_support(verify), query_support(snapshot), query_support(commit)}) {
              EXPECT_TRUE(answer.supported) << what << ": " << answer.reason;
            }
            must_run(verify, {.target = target});
            must_run(commit, {.target = target});
            must_run(snapshot, {.target = target});
            EXPECT_TRUE(same_bits(out, expected)) << what << " " << name_of(target);
            EXPECT_TRUE(same_bits(snapshot_out, expected)) << what << " " << name_of(target);
            EXPECT_TRUE(same_bits(slice(pool.state, 0, 1), slice(plain_pool.state, 0, 1))) << what << " " << name_of(target);
            EXPECT_TRUE(same_bits(slice(other.state, 0, 1), slice(plain_pool.state, 0, 1))) << what << " " << name_of(target);
          }
        }
      }
    }
  }
}

// A no names the operation, the size and the limit, before anything is launched, and run says the same and writes nothing.
TEST(Reports, B68_every_no_has_a_reason) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (int K = 250; K <= 264; ++K) {
      Model m(68, {.gate = gate, .H = 1, .HV = 1, .K = K, .V = 2});
      const RuleTokens tokens = m.tokens(2);
      const RulePool pool = m.pool(2, 2);
      const Tensor out = m.out(2);
      const RowSet rows = one_row(2, 2);
      const RowTensors index = row_tensors(m.pick, rows);
      const recoverssm::GatedDeltaRuleVerifyParams p{
          inputs_of(m.shape, m.weights, tokens), pool.state, out, pool.records(), rows_of(rows, index), {}};
      const recoverssm::Support answer = recoverssm::query_support(p);
      EXPECT_EQ(answer.supported, K <= 256);
      const Untouched untouched(pool.watches());
      const recoverssm::Status status = try_run(p);
      PlanArrays plan;
      plan.add(1, 1);
      const recoverssm::Status committed = m.try_commit(plan, pool);
      if (answer.supported) {
        EXPECT_TRUE(status.ok() && committed.ok());
        continue;
      }
      EXPECT_EQ(status.kind, ErrorKind::unsupported);
      EXPECT_EQ(status.message, answer.reason);
      EXPECT_EQ(committed.kind, ErrorKind::unsupported);
      for (const char* word : {"gated_delta_rule_verify", "256"})
        EXPECT_NE(answer.reason.find(word), std::string::npos) << answer.reason;
      EXPECT_NE(answer.reason.find(std::to_string(K)), std::string::npos) << answer.reason;
      EXPECT_TRUE(untouched.check());
    }
  }
}

// A target is either listed and runs, or is refused by name; nothing else is run in its place.
TEST(Reports, B68_targets_are_not_replaced) {
  Model m(68, kSmall);
  const std::vector<recoverssm::Target> available = recoverssm::available_targets();
  for (const recoverssm::Target target : {recoverssm::Target::portable, recoverssm::Target::avx2, recoverssm::Target::avx512}) {
    const bool listed = std::find(available.begin(), available.end(), target) != available.end();
    recoverssm::Target resolved = recoverssm::Target::best;
    EXPECT_EQ(recoverssm::resolve_target(target, resolved).ok(), listed) << name_of(target);
    const RulePool pool = m.pool(2, 0);
    const RowSet rows = one_row(1, 0);
    const RowTensors index = row_tensors(m.pick, rows);
    const RuleTokens tokens = m.tokens(1);
    const Untouched untouched({{"state", pool.state}});
    const recoverssm::Status status = try_run(
        recoverssm::GatedDeltaRuleParams{inputs_of(m.shape, m.weights, tokens), pool.state, m.out(1), rows_of(rows, index), {}, {}},
        {.target = target});
    EXPECT_EQ(status.kind, listed ? ErrorKind::ok : ErrorKind::unsupported) << name_of(target) << " " << status.message;
    EXPECT_EQ(static_cast<bool>(untouched.check()), !listed);
    if (listed) {
      EXPECT_EQ(resolved, target);
    }
  }
}

}  // namespace
