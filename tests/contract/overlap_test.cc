// The overlap search against brute force over random small views, and the layouts engines really use.
#include "contract/overlap.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace recoverssm;

// Views are built over addresses that are never touched.
constexpr std::uintptr_t kBase = std::uintptr_t{1} << 40;

TensorView view_at(std::uintptr_t address, DType dtype, std::vector<std::int64_t> shape, std::vector<std::int64_t> stride) {
  TensorView view;
  view.data = reinterpret_cast<void*>(address);
  view.dtype = dtype;
  view.dims = static_cast<int>(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    view.shape[d] = shape[d];
    view.stride[d] = stride[d];
  }
  return view;
}

// How often each byte is reached.
std::map<std::int64_t, int> bytes_of(const TensorView& v) {
  std::map<std::int64_t, int> bytes;
  std::array<std::int64_t, kMaxDims> i{};
  if (v.empty()) return bytes;
  for (;;) {
    std::int64_t offset = 0;
    for (int d = 0; d < v.dims; ++d) offset += i[static_cast<std::size_t>(d)] * v.stride[static_cast<std::size_t>(d)];
    const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(v.data)) + offset * size_of(v.dtype);
    for (std::int64_t b = 0; b < size_of(v.dtype); ++b) ++bytes[address + b];
    int d = v.dims - 1;
    while (d >= 0 && ++i[static_cast<std::size_t>(d)] == v.shape[static_cast<std::size_t>(d)]) i[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return bytes;
  }
}

TensorView random_view(std::mt19937& random, int reach) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const DType dtypes[] = {DType::f32, DType::bf16, DType::u8};
  const DType dtype = dtypes[pick(0, 2)];
  std::vector<std::int64_t> shape, stride;
  for (int d = pick(0, 3); d >= 0; --d) {
    shape.push_back(pick(0, 9) == 0 ? 0 : pick(1, 4));
    stride.push_back(pick(0, 3) == 0 ? pick(-3, 3) : pick(-30, 30));
  }
  return view_at(kBase + static_cast<std::uintptr_t>(pick(0, reach)) * static_cast<std::uintptr_t>(size_of(dtype)), dtype, shape,
                 stride);
}

TEST(Overlap, AgreesWithBruteForce) {
  const char* given = std::getenv("RECOVERSSM_TEST_SEED");
  const unsigned seed = given == nullptr ? 20260729 : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  std::mt19937 random(seed);
  int overlaps = 0, self_overlaps = 0;
  for (int run = 0; run < 10000; ++run) {
    const TensorView a = random_view(random, 200), b = random_view(random, 200);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " run " << run << ": " << name_of(a.dtype) << list(a.shape, a.dims)
                                    << list(a.stride, a.dims) << " at " << a.data << ", " << name_of(b.dtype)
                                    << list(b.shape, b.dims) << list(b.stride, b.dims) << " at " << b.data);
    const auto bytes_a = bytes_of(a), bytes_b = bytes_of(b);
    bool shared = false, twice = false;
    for (const auto& [byte, count] : bytes_a) {
      shared = shared || bytes_b.count(byte) > 0;
      twice = twice || count > 1;
    }
    ASSERT_EQ(proven_overlap(a, b), shared);
    ASSERT_EQ(proven_overlap(b, a), shared);
    ASSERT_EQ(proven_self_overlap(a), twice);
    if (surely_disjoint(footprint_of(a), footprint_of(b))) {
      ASSERT_FALSE(shared);
    }
    overlaps += shared;
    self_overlaps += twice;
  }
  EXPECT_GT(overlaps, 500);
  EXPECT_GT(self_overlaps, 500);
}

TEST(Overlap, LargeViewsAreSettledExactly) {
  // A page of 64 KiB a block holds a state, records and a line, as one pool.
  const std::int64_t blocks = 100000, page = 65536;
  const auto pool = [&](std::int64_t offset, std::int64_t bytes) {
    return view_at(kBase + static_cast<std::uintptr_t>(offset), DType::f32, {blocks, bytes / 4}, {page / 4, 1});
  };
  EXPECT_FALSE(proven_overlap(pool(0, 32768), pool(32768, 32768)));
  EXPECT_TRUE(proven_overlap(pool(0, 32768), pool(32764, 32768)));
  EXPECT_TRUE(proven_overlap(pool(0, 4), pool(32768, 32772)));  // reaches into the next page
  EXPECT_FALSE(proven_overlap(pool(0, 4), pool(32768, 32768)));
  EXPECT_FALSE(proven_self_overlap(pool(0, 65536)));
  EXPECT_TRUE(proven_self_overlap(pool(0, 65540)));
  // Even and odd columns of one matrix.
  const TensorView even = view_at(kBase, DType::bf16, {5000, 64}, {128, 2});
  const TensorView odd = view_at(kBase + 2, DType::bf16, {5000, 64}, {128, 2});
  EXPECT_FALSE(proven_overlap(even, odd));
  EXPECT_TRUE(proven_overlap(even, view_at(kBase + 2, DType::bf16, {5000, 64}, {127, 2})));
  // Backwards over the same memory.
  EXPECT_TRUE(proven_overlap(view_at(kBase, DType::f32, {100}, {1}), view_at(kBase + 396, DType::f32, {100}, {-1})));
  EXPECT_FALSE(proven_overlap(view_at(kBase, DType::f32, {100}, {1}), view_at(kBase + 799, DType::u8, {400}, {-1})));
}

TEST(Overlap, AddressesWithTheTopBitSet) {
  const std::uintptr_t top = std::uintptr_t{1} << 63;
  EXPECT_TRUE(proven_overlap(view_at(top - 8, DType::f32, {4}, {1}), view_at(top, DType::f32, {4}, {1})));
  EXPECT_FALSE(proven_overlap(view_at(top - 16, DType::f32, {4}, {1}), view_at(top, DType::f32, {4}, {1})));
  EXPECT_FALSE(proven_overlap(view_at(16, DType::f32, {4}, {1}), view_at(top, DType::f32, {4}, {1})));
}

TEST(Overlap, EmptyViewsOverlapNothing) {
  const TensorView some = view_at(kBase, DType::f32, {4}, {1}), none = view_at(kBase, DType::f32, {0}, {1});
  EXPECT_FALSE(proven_overlap(some, none));
  EXPECT_FALSE(proven_self_overlap(none));
  EXPECT_TRUE(surely_disjoint(footprint_of(some), footprint_of(none)));
}

TEST(Overlap, SameMemory) {
  const TensorView x = view_at(kBase, DType::bf16, {6, 10}, {12, 1});
  EXPECT_TRUE(same_memory(x, x));
  EXPECT_TRUE(same_memory(x, view_at(kBase, DType::bf16, {5, 10}, {12, 1})));
  EXPECT_TRUE(same_memory(x, view_at(kBase, DType::bf16, {1, 10}, {99, 1})));
  EXPECT_FALSE(same_memory(x, view_at(kBase, DType::bf16, {6, 10}, {11, 1})));
  EXPECT_FALSE(same_memory(x, view_at(kBase, DType::f16, {6, 10}, {12, 1})));
  EXPECT_FALSE(same_memory(x, view_at(kBase + 2, DType::bf16, {6, 10}, {12, 1})));
  EXPECT_FALSE(same_memory(x, TensorView()));
}

// Pools of two cache groups in the pages of one raw tensor: 64-byte pages at kBase, whatever lies inside.
TEST(Overlap, InSamePages) {
  const TensorView state = view_at(kBase, DType::f32, {5, 8}, {16, 1});
  EXPECT_TRUE(in_same_pages(state, state));
  EXPECT_TRUE(in_same_pages(state, view_at(kBase, DType::f32, {3, 16}, {16, 1})));             // a whole page
  EXPECT_TRUE(in_same_pages(state, view_at(kBase + 32, DType::bf16, {9, 4, 2}, {32, 1, 8})));  // the other half
  EXPECT_FALSE(in_same_pages(state, view_at(kBase + 64, DType::f32, {5, 8}, {16, 1})));        // block i is page i + 1
  EXPECT_FALSE(in_same_pages(state, view_at(kBase + 32, DType::f32, {5, 16}, {16, 1})));       // from page to page
  EXPECT_FALSE(in_same_pages(state, view_at(kBase, DType::f32, {5, 8}, {32, 1})));             // pages of another size
  EXPECT_FALSE(in_same_pages(state, view_at(kBase, DType::f32, {5, 8}, {-16, 1})));            // counted from the end
  EXPECT_FALSE(in_same_pages(state, view_at(kBase, DType::f32, {5, 8}, {0, 1})));
  EXPECT_FALSE(in_same_pages(state, view_at(kBase, DType::f32, {0, 8}, {16, 1})));
  const TensorView second = view_at(kBase + 16, DType::u8, {5, 16}, {64, 1});
  for (const bool groups : {false, true}) {
    Check check("test");
    check_pair(check, {"a", &state, true, groups ? 0 : -1}, {"b", &second, false, 1});
    EXPECT_EQ(check.ok(), groups);
    Check same("test");
    check_pair(same, {"a", &state, true, 1}, {"b", &second, false, 1});
    EXPECT_FALSE(same.ok());
  }
}

// A search that would take too long ends, and nothing is refused.
TEST(Overlap, TheSearchHasABudget) {
  const TensorView a = view_at(kBase, DType::u8, {900, 900, 900, 900}, {100003, 100019, 100043, 100057});
  const TensorView b = view_at(kBase + 7, DType::u8, {900, 900, 900, 900}, {100069, 100103, 100109, 100129});
  const auto start = std::chrono::steady_clock::now();
  (void)proven_overlap(a, b);
  (void)proven_self_overlap(a);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// 64 layers interleaved in the same pages: state, records and line of each, all with one block stride.
TEST(Overlap, ManyInterleavedPoolsAreCheap) {
  constexpr int kLayers = 64;
  std::vector<TensorView> views;
  const std::int64_t part = 4096, page = kLayers * 3 * part;
  for (int i = 0; i < 3 * kLayers; ++i) {
    views.push_back(
        view_at(kBase + static_cast<std::uintptr_t>(i * part), DType::f32, {1000, 8, part / 32}, {page / 4, part / 32, 1}));
  }
  const auto operand = [&](std::int64_t i) { return Operand{Name("views").at(i), &views[static_cast<std::size_t>(i)], true}; };
  Check check("test");
  const auto start = std::chrono::steady_clock::now();
  check_overlap(check, std::ssize(views), operand);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(check.ok()) << check.take().message;
  EXPECT_LT(took, std::chrono::milliseconds(100));

  views[77].shape[2] += 1;  // one element into its neighbour, far into the list
  Check spoiled("test");
  check_overlap(spoiled, std::ssize(views), operand);
  const Status status = spoiled.take();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message.find("views[77]"), std::string::npos) << status.message;
}

}  // namespace
