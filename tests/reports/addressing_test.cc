// Addresses: pools and tokens past 32 bits, pointers with the top bit set, pools inside other storage, inputs as slices.
#include <gtest/gtest.h>

#include <cstring>

#include "recoverssm/recoverssm.h"
#include "reports/scene.h"
#include "reports/sparse.h"

namespace {

using namespace reports;

constexpr std::int64_t kStrides[] = {(std::int64_t{1} << 29) + 64, (std::int64_t{1} << 30) + 64, (std::int64_t{1} << 31) + 64,
                                     (std::int64_t{1} << 32) + 64};

// ---- B33: slots past 32 bits --------------------------------------------------------------------------------------------------------

// Every op that takes a pool, on block `slot` and two others, once packed and once far apart.
struct FarPool {
  RulePool pool;
  std::vector<FarTensor> parts;

  bool ok() const {
    for (const FarTensor& part : parts) {
      if (!part.ok()) return false;
    }
    return true;
  }
};

FarPool far_pool(const RulePool& packed, std::int64_t stride) {
  FarPool far{packed, {}};
  for (Tensor* part : {&far.pool.state, &far.pool.packed, &far.pool.corrections, &far.pool.key_gate, &far.pool.pending}) {
    if (!part->present()) continue;
    far.parts.push_back(far_copy(*part, 0, stride));
    if (far.ok()) part->view = far.parts.back().view;
  }
  return far;
}

enum class PoolOp { plain, snapshots, verify, commit, commit_boundary, lazy_commit, materialize, move, kCount };

recoverssm::Status run_pool_op(Model& m, PoolOp op, const RuleTokens& tokens, const RulePool& p, const Tensor& out, int a, int b,
                               int c) {
  PlanArrays plan;
  switch (op) {
    case PoolOp::plain:
      return m.try_plain(rows_on({a}, {2}, 0), tokens, p, out);
    case PoolOp::snapshots:
      return m.try_snapshots(snapshot_rows({{b, a}}, {2}, {2}), tokens, p, out);
    case PoolOp::verify:
      return m.try_verify(rows_on({a}, {2}, 2), tokens, p, out);
    case PoolOp::commit:
      plan.add(a, 2);
      return m.try_commit(plan, p);
    case PoolOp::commit_boundary:
      plan.add(a, 2, c, b, 1);
      return m.try_commit(plan, p);
    case PoolOp::lazy_commit:
      plan.add(a, 1, c, kNoBlock, 0);
      return m.try_commit(plan, p, true);
    case PoolOp::materialize:
      return m.try_materialize({a, b}, {2, 1}, p);
    default:
      break;
  }
  const Tensor from = dense_i32({b}), to = dense_i32({a});
  const std::array layers = {layer_of(m.shape, m.weights, p)};
  return try_run(recoverssm::AlignMoveParams{from, to, layers, 0});
}

TEST(Reports, B33_pool_slots_past_32_bits) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const DType state : {DType::bf16, DType::f32}) {
      for (const std::int64_t stride : kStrides) {
        const RuleShape shape = {
            .gate = gate, .H = 1, .HV = 2, .K = 16, .V = 8, .T = DType::bf16, .state = state, .out = DType::f32};
        Model m(33, shape);
        const RuleTokens tokens = m.tokens(2);
        RulePool start = m.pool(4, 2);
        m.verify(rows_on({2, 1}, {2, 2}, 2), m.tokens(4), start, m.out(4));  // records that a commit may replay
        start.pending.fill(2);
        for (int op = 0; op < static_cast<int>(PoolOp::kCount); ++op) {
          const RulePool packed = m.copy(start);
          const FarPool far = far_pool(packed, stride);
          if (!far.ok()) GTEST_SKIP() << "no address space for blocks " << stride << " elements apart";
          const Tensor out = m.out(2), expected = m.out(2);
          for (const bool wide : {false, true}) {
            const recoverssm::Status status =
                run_pool_op(m, static_cast<PoolOp>(op), tokens, wide ? far.pool : packed, wide ? out : expected, 2, 1, 3);
            ASSERT_EQ(status.message, "") << "op " << op;
          }
          EXPECT_TRUE(same_bits(out, expected)) << "op " << op << " stride " << stride;
          std::size_t part = 0;
          for (const Tensor* t : {&packed.state, &packed.packed, &packed.corrections, &packed.key_gate, &packed.pending}) {
            if (!t->present()) continue;
            EXPECT_TRUE(same_bits(*t, far.parts[part].view)) << "op " << op << " stride " << stride << " part " << part;
            EXPECT_TRUE(far.parts[part].memory->only_touched(far.parts[part].view)) << "op " << op << " stride " << stride;
            ++part;
          }
        }
      }
    }
  }
}

// The report's own pools: HV 32 (slot 4096 is the first past 2^31 elements) and 64 (slot 2048), K = V = 128, dense.
TEST(Reports, B33_dense_pools_of_thousands_of_slots) {
  for (const int HV : {32, 64}) {
    const int slot = 4096 * 32 / HV;
    const RuleShape shape = {.H = 16, .HV = HV, .K = 128, .V = 128, .T = DType::bf16, .state = DType::bf16, .out = DType::bf16};
    Model m(33, shape);
    const RulePool packed = m.pool(2, 2);
    const std::int64_t block = std::int64_t{HV} * 128 * 128, record = std::int64_t{HV} * 2 * 257;
    SparseMemory states(static_cast<std::size_t>(block * (slot + 2) * 2)),
        records(static_cast<std::size_t>(record * (slot + 2) * 4));
    if (!states.ok() || !records.ok()) GTEST_SKIP() << "no address space for " << slot << " slots";
    RulePool pool = packed;
    pool.blocks = slot + 2;
    pool.state.view = TensorView(states.data(), DType::bf16, {slot + 2, HV, 128, 128});
    pool.packed.view = TensorView(records.data(), DType::f32, {slot + 2, HV, 2, 257});
    const RuleTokens tokens = m.tokens(2);
    for (const int at : {slot - 1, slot, slot + 1}) {
      const RulePool near = m.copy(packed);
      copy_bits(slice(near.state, 0, 1), slice(pool.state, 0, at));
      const Tensor out = m.out(2), expected = m.out(2);
      m.verify(rows_on({at}, {2}, 2), tokens, pool, out);
      m.verify(rows_on({1}, {2}, 2), tokens, near, expected);
      EXPECT_TRUE(same_bits(out, expected));
      m.commit(at, 2, pool);
      m.commit(1, 2, near);
      m.plain(rows_on({at}, {2}, 0), tokens, pool, out);
      m.plain(rows_on({1}, {2}, 0), tokens, near, expected);
      EXPECT_TRUE(same_bits(out, expected));
      EXPECT_TRUE(same_bits(slice(pool.state, 0, at), slice(near.state, 0, 1))) << at;
    }
    EXPECT_TRUE(states.only_touched(slice(pool.state, 0, slot - 1, slot + 2)));
    EXPECT_TRUE(records.only_touched(slice(pool.packed, 0, slot - 1, slot + 2)));
  }
}

// ---- B35: token strides past 32 bits ------------------------------------------------------------------------------------------------

// Each tensor of each operation, one at a time, with a stride whose product with the token passes 31, 32 or 33 bits, in bytes and in
// elements. A wrapped address lies inside the mapping and is seen as a page that nobody should have touched.
TEST(Reports, B35_strides_past_32_bits) {
  for (const Op op : kOps) {
    for (const std::int64_t stride : {(std::int64_t{1} << 30) + 8, (std::int64_t{1} << 31) + 8, (std::int64_t{1} << 32) + 8}) {
      Pick pick(35);
      const RowSet rows = scene_rows(op, {2}, {3});
      const Scene start = random_scene(pick, op, rows), expected = another_scene(pick, start);
      run_scene(pick, expected, rows);
      for (int which = 0; which < 10; ++which) {
        Scene far = another_scene(pick, start);
        Tensor* tensors[] = {&far.x,        &far.line,     &far.line,     &far.line,     &far.out,
                             &far.tokens.q, &far.tokens.k, &far.tokens.v, &far.tokens.a, &far.tokens.b};
        const int dims[] = {0, 0, 1, 2, 0, 0, 0, 0, 0, 0};
        Tensor& tensor = *tensors[which];
        if (!tensor.present()) continue;
        const FarTensor copy = far_copy(tensor, dims[which], stride);
        if (!copy.ok()) GTEST_SKIP() << "no address space for strides of " << stride;
        tensor.view = copy.view;
        run_scene(pick, far, rows);
        EXPECT_TRUE(copy.memory->only_touched(copy.view)) << name_of(op) << " tensor " << which << " stride " << stride;
        EXPECT_TRUE(same_bits(far.out, expected.out)) << name_of(op) << " tensor " << which << " stride " << stride;
        for (std::size_t p = 0; p < far.pools().size(); ++p) {
          EXPECT_TRUE(same_bits(far.pools()[p], expected.pools()[p])) << name_of(op) << " tensor " << which << " stride " << stride;
        }
      }
      Scene far = another_scene(pick, start);  // and the index arrays
      const FarTensor offsets = far_copy(dense_i32(rows.offsets), 0, stride), ids = far_copy(dense_i32({2, 0}), 0, stride);
      if (!offsets.ok() || !ids.ok()) GTEST_SKIP() << "no address space for strides of " << stride;
      run_scene(pick, far, rows, [&](recoverssm::Rows& r) {
        r.query_start_loc = offsets.view;
        if (!rows.snapshots) r.state_indices = slice(ids.view, 0, 0);
      });
      EXPECT_TRUE(same_bits(far.out, expected.out)) << name_of(op);
      EXPECT_TRUE(offsets.memory->only_touched(offsets.view)) << name_of(op);
    }
  }
}

// ---- B36: addresses at and above 2^63 -----------------------------------------------------------------------------------------------

void* address(std::uint64_t bits) { return reinterpret_cast<void*>(bits); }

// Six layers of two groups, their states `apart` bytes from one another. Nothing is read or written: only shapes and addresses count.
struct DryRun {
  std::vector<recoverssm::Layer> layers;
  std::array<std::int32_t, 4> zeros{};
  recoverssm::CommitGroup group;
  std::array<recoverssm::CommitGroup, 2> groups;

  DryRun(std::uint64_t base, std::uint64_t apart) {
    const TensorView index(zeros.data(), DType::i32, {2});
    group = {index, index, index, index, index};
    groups = {group, group};
    for (std::uint64_t i = 0; i < 6; ++i) {
      recoverssm::Layer layer;
      layer.group = static_cast<std::int32_t>(i % 2);
      layer.state = TensorView(address(base + i * apart), DType::f32, {4, 2, 8, 16});
      layer.records.packed = TensorView(address(base + (6 + i) * apart), DType::f32, {4, 2, 3, 25});
      layers.push_back(layer);
    }
  }
  recoverssm::CommitParams params() const { return {groups, layers, 3, 0}; }
};

TEST(Reports, B36_addresses_with_the_top_bit) {
  constexpr std::uint64_t kState = 4 * 2 * 8 * 16 * 4, kApart = 0x8000;
  static_assert(kState < kApart);
  const std::uint64_t bases[] = {0x1000,
                                 0x7fffffff1000,
                                 0x8000000000000000 - 3 * kApart,  // the layers straddle 2^63
                                 0x8000000000000000 - kState / 2,  // a state does
                                 0x7ffffffffffff000,
                                 0x8000000000000000,
                                 0x8000000000001000,
                                 0x9234567890abc000,
                                 0xff00000000000000,
                                 0xffff800000000000,
                                 0xffffffff80000000,
                                 0xfffffffffff00000};
  const std::size_t workspace = recoverssm::workspace_size(DryRun(0x1000, kApart).params(), {});
  for (const std::uint64_t base : bases) {
    const DryRun apart(base, kApart);
    const recoverssm::Status status = recoverssm::validate(apart.params());
    EXPECT_TRUE(status.ok()) << std::hex << base << " " << status.message;
    EXPECT_TRUE(recoverssm::query_support(apart.params()).supported);
    EXPECT_EQ(recoverssm::workspace_size(apart.params(), {}), workspace) << std::hex << base;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(apart.params().layers[0].state.data), base);
    // Too near one another by one element: provable whatever the sign of the address as an int64.
    const DryRun together(base, kState - 4);
    EXPECT_EQ(recoverssm::validate(together.params()).kind, ErrorKind::invalid_argument) << std::hex << base;
    const DryRun touching(base, kState);
    EXPECT_TRUE(recoverssm::validate(touching.params()).ok()) << std::hex << base;
  }
}

// The same 64 bits through the C structs.
TEST(Reports, B36_addresses_through_the_c_abi) {
  for (const std::uint64_t base :
       {std::uint64_t{0x8000000000001000}, std::uint64_t{0x7ffffffffffff000}, std::uint64_t{0xffff800000000000}}) {
    std::int32_t zeros[2] = {0, 0};
    recoverssm_commit_group group;
    recoverssm_commit_group_init(&group, sizeof group);
    group.state_indices = group.commit_len = group.final_indices = group.boundary_indices = group.boundary_len =
        recoverssm_dense_1d(zeros, RECOVERSSM_I32, 2);
    for (const std::uint64_t apart : {std::uint64_t{0x1000}, std::uint64_t{0xffc}}) {  // a state has 0x1000 bytes
      recoverssm_layer layers[2];
      recoverssm_records records[2];
      for (std::uint64_t i = 0; i < 2; ++i) {
        recoverssm_layer_init(&layers[i], sizeof layers[i]);
        layers[i].state = recoverssm_dense_4d(address(base + i * apart), RECOVERSSM_F32, 4, 2, 8, 16);
        recoverssm_records_init(&records[i], sizeof records[i]);
        records[i].packed = recoverssm_dense_4d(address(base + 0x100000 * (i + 1)), RECOVERSSM_F32, 4, 2, 3, 25);
        layers[i].records = &records[i];
      }
      recoverssm_commit_params params;
      recoverssm_commit_params_init(&params, sizeof params);
      params.groups = &group;
      params.group_count = 1;
      params.layers = layers;
      params.layer_count = 2;
      params.window_capacity = 3;
      const std::int32_t status = recoverssm_commit_validate(&params);
      EXPECT_EQ(status == RECOVERSSM_OK, apart == 0x1000) << recoverssm_last_error();
    }
  }
}

// ---- B40: pools inside other storage ------------------------------------------------------------------------------------------------

// The state of slot i is storage[i, part]; every op writes through, and the other parts never change.
TEST(Reports, B40_writes_reach_interleaved_storage) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (int parts = 2; parts <= 4; ++parts) {
      for (int part = 0; part < parts; ++part) {
        const RuleShape shape = {.gate = gate, .H = 2, .HV = 4, .K = 8, .V = 8};
        Model m(static_cast<std::uint64_t>(40 + parts * 8 + part), shape);
        const RuleTokens tokens = m.tokens(2);
        RulePool start = m.pool(4, 2);
        m.verify(rows_on({2, 1}, {2, 2}, 2), m.tokens(4), start, m.out(4));
        start.pending.fill(2);
        for (int op = 0; op < static_cast<int>(PoolOp::kCount); ++op) {
          const RulePool packed = m.copy(start);
          RulePool inside = m.copy(start);
          const Tensor storage = dense(DType::f32, {4, parts * 4, 8, 8});
          storage.fill(7);
          inside.state = storage;
          inside.state.view = TensorView(storage.at(0, part * 4), DType::f32, {4, 4, 8, 8}, {parts * 256, 64, 8, 1});
          copy_bits(start.state, inside.state);
          Untouched untouched({{"storage", storage}});
          untouched.except(inside.state);
          const Tensor out = m.out(2), expected = m.out(2);
          const recoverssm::Status a = run_pool_op(m, static_cast<PoolOp>(op), tokens, packed, expected, 2, 1, 3),
                                   b = run_pool_op(m, static_cast<PoolOp>(op), tokens, inside, out, 2, 1, 3);
          ASSERT_TRUE(a.ok() == b.ok()) << b.message;
          EXPECT_TRUE(untouched.check()) << "gap bytes, op " << op;
          EXPECT_TRUE(same_bits(out, expected)) << "op " << op;
          EXPECT_TRUE(same_bits(inside.state, packed.state)) << "op " << op;
          for (int v = 0; v < 8; ++v) EXPECT_EQ(storage.get(2, part * 4 + 1, v, 3), packed.state.get(2, 1, v, 3)) << "op " << op;
          const bool writes = a.ok() && op != static_cast<int>(PoolOp::verify);
          EXPECT_EQ(static_cast<bool>(same_bits(start.state, inside.state)), !writes) << "op " << op << " " << b.message;
        }
      }
    }
  }
}

// ---- B41: inputs as slices ----------------------------------------------------------------------------------------------------------

// `tensor`'s bits as a slice that begins `start` elements into a wider row.
Tensor inside_row(const Tensor& tensor, int start, int behind) {
  std::int64_t inner = 1;
  for (int d = 1; d < tensor.view.dims; ++d) inner *= tensor.view.shape[static_cast<std::size_t>(d)];
  const Tensor rows = dense(tensor.dtype(), {tensor.view.shape[0], start + inner + behind});
  Tensor slice_of = rows;
  slice_of.view = tensor.view;
  slice_of.view.data = rows.at(0, start);
  for (int d = tensor.view.dims - 1; d > 0; --d) {
    const auto u = static_cast<std::size_t>(d);
    slice_of.view.stride[u] = d == tensor.view.dims - 1 ? 1 : slice_of.view.stride[u + 1] * tensor.view.shape[u + 1];
  }
  slice_of.view.stride[0] = rows.view.stride[0];
  copy_bits(tensor, slice_of);
  return slice_of;
}

// A vector's bits as buf[start:].
Tensor inside_vector(const Tensor& tensor, int start) {
  const Tensor flat = dense(tensor.dtype(), {tensor.view.elements() + start});
  Tensor part = flat;
  part.view = tensor.view;
  part.view.data = flat.at(start);
  for (int d = tensor.view.dims - 1; d >= 0; --d) {
    const auto u = static_cast<std::size_t>(d);
    part.view.stride[u] = d == tensor.view.dims - 1 ? 1 : part.view.stride[u + 1] * tensor.view.shape[u + 1];
  }
  copy_bits(tensor, part);
  return part;
}

TEST(Reports, B41_inputs_as_slices_of_fused_buffers) {
  for (const Gate gate : {Gate::gdn, Gate::kda}) {
    for (const DType T : {DType::bf16, DType::f32}) {
      for (int start = 0; start <= 20; ++start) {
        const RuleShape shape = {.gate = gate, .H = 2, .HV = 4, .K = 20, .V = 9, .T = T, .out = T, .dt_bias = T};
        Model m(41, shape);
        const RuleTokens tokens = m.tokens(3);
        RuleTokens packed = tokens, sliced = tokens;
        for (Tensor RuleTokens::*part : {&RuleTokens::q, &RuleTokens::k, &RuleTokens::v, &RuleTokens::a, &RuleTokens::b}) {
          packed.*part = inside_row(tokens.*part, 0, 0);
        }
        // q, k, v one behind the other in a row [2*H*K + HV*V], which itself begins anywhere; a and b in one of their own.
        const Tensor fused = dense(T, {3, start + 2 * 2 * 20 + 4 * 9});
        std::int64_t at = start;
        for (Tensor RuleTokens::*part : {&RuleTokens::q, &RuleTokens::k, &RuleTokens::v}) {
          const TensorView& shape_of = (packed.*part).view;
          Tensor slice_of = fused;
          slice_of.view = shape_of;
          slice_of.view.data = fused.at(0, at);
          slice_of.view.stride[0] = fused.view.stride[0];
          copy_bits(packed.*part, slice_of);
          sliced.*part = slice_of;
          at += shape_of.shape[1] * shape_of.shape[2];
        }
        sliced.a = inside_row(tokens.a, start, 3);
        sliced.b = inside_row(tokens.b, start + 1, 0);
        Model far = m;
        far.weights.A_log = inside_vector(m.weights.A_log, start);
        far.weights.dt_bias = inside_vector(m.weights.dt_bias, start);
        m.weights.A_log = inside_vector(m.weights.A_log, 0);
        m.weights.dt_bias = inside_vector(m.weights.dt_bias, 0);
        const RulePool a = m.pool(2, 3), b = m.copy(a);
        const Tensor out_a = m.out(3), out_b = m.out(3);
        for (const bool plain : {false, true}) {
          if (plain) {
            m.plain(one_row(3, 0), packed, a, out_a);
            far.plain(one_row(3, 0), sliced, b, out_b);
          } else {
            m.verify(one_row(3, 3), packed, a, out_a);
            far.verify(one_row(3, 3), sliced, b, out_b);
            m.commit(1, 2, a);
            far.commit(1, 2, b);
          }
          EXPECT_TRUE(same_bits(out_a, out_b)) << "start " << start;
          EXPECT_TRUE(same_bits(slice(a.state, 0, 1), slice(b.state, 0, 1))) << "start " << start;
        }
      }
    }
  }
}

// The same for a convolution over channels that lie behind others.
TEST(Reports, B41_convolutions_of_slices) {
  for (int start = 0; start <= 20; ++start) {
    for (const Op op : {Op::conv, Op::rolled_window, Op::short_conv}) {
      Pick pick(41);
      const RowSet rows = scene_rows(op, {1, 2}, {3, 2});
      const Scene packed = random_scene(pick, op, rows);
      Scene sliced = another_scene(pick, packed);
      sliced.x = inside_row(packed.x, start, 5);
      sliced.out = inside_row(packed.out, start, 1);
      run_scene(pick, packed, rows);
      run_scene(pick, sliced, rows);
      EXPECT_TRUE(same_bits(packed.out, sliced.out)) << name_of(op) << " " << start;
      EXPECT_TRUE(same_bits(packed.line, sliced.line)) << name_of(op) << " " << start;
    }
  }
}

}  // namespace
