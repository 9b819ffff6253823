// A launch that succeeds allocates nothing, in C and in C++, in one thread and in several.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>

#include "calls.h"
#include "to_c.h"

namespace {
std::atomic<long> allocations = 0;
}

// The allocator is counted where all ways to it meet: operator new in all its forms ends in malloc or aligned_alloc. A sanitizer has an
// allocator of its own, which tells.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, std::size_t),
                                                         void (*free_hook)(const volatile void*));
namespace {
[[maybe_unused]] const int hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { ++allocations; }, [](const volatile void*) {});
}
#else
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace c_api_tests {
namespace {

using namespace recoverssm;

// Allocations while f runs, by all threads.
template <class F>
long count(F&& f) {
  const long before = allocations;
  f();
  return allocations - before;
}

struct alignas(128) Wide {
  char bytes[128];
};

TEST(Allocation, EveryWayIsCounted) {
  static void* volatile memory = nullptr;  // volatile: nothing is optimised away
  EXPECT_EQ(count([] {}), 0);
  EXPECT_EQ(count([] { memory = std::malloc(8); }), 1);
  std::free(memory);
  EXPECT_EQ(count([] { memory = std::calloc(1, 8); }), 1);
  std::free(memory);
  EXPECT_EQ(count([] { memory = ::operator new(8); }), 1);
  ::operator delete(memory);
  EXPECT_EQ(count([] { memory = ::operator new[](8); }), 1);
  ::operator delete[](memory);
  EXPECT_EQ(count([] { memory = ::operator new(8, std::nothrow); }), 1);
  ::operator delete(memory, std::nothrow);
  EXPECT_EQ(count([] { memory = ::operator new[](8, std::nothrow); }), 1);
  ::operator delete[](memory, std::nothrow);
  EXPECT_EQ(count([] { memory = ::operator new (128, std::align_val_t{128}); }), 1);
  ::operator delete (memory, std::align_val_t{128});
  EXPECT_EQ(count([] { memory = ::operator new[](128, std::align_val_t{128}); }), 1);
  ::operator delete[](memory, std::align_val_t{128});
  EXPECT_EQ(count([] { memory = ::operator new (128, std::align_val_t{128}, std::nothrow); }), 1);
  ::operator delete (memory, std::align_val_t{128}, std::nothrow);
  EXPECT_EQ(count([] { memory = new Wide; }), 1);
  delete static_cast<Wide*>(memory);
}

template <class Params>
void expect_no_allocation(Params (*make)(Calls&), recoverssm_context* context) {
  Calls calls;
  Params params = make(calls);
  fill_floats(leaves_of(params));
  ToC convert;
  const auto c = convert(params);
  recoverssm_counters counters;
  recoverssm_counters_init(&counters, sizeof counters);
  recoverssm_launch launch;
  recoverssm_launch_init(&launch, sizeof launch);
  launch.counters = &counters;
  std::size_t bytes = 0;
  ASSERT_EQ(recoverssm_context_launch(context, 0, &launch), RECOVERSSM_OK) << recoverssm_last_error();
  ASSERT_EQ(Op<Params>::workspace_size(&c, &launch, &bytes), RECOVERSSM_OK) << recoverssm_last_error();
  ASSERT_EQ(recoverssm_context_launch(context, bytes, &launch), RECOVERSSM_OK) << recoverssm_last_error();
  int status = -1;
  EXPECT_EQ(count([&] { status = Op<Params>::run(&c, &launch); }), 0) << Op<Params>::kName;
  EXPECT_EQ(status, RECOVERSSM_OK) << recoverssm_last_error();
}

template <class Params>
void expect_no_allocation(Params (*make)(Calls&), Context& context) {
  Calls calls;
  Params params = make(calls);
  fill_floats(leaves_of(params));
  Counters counters;
  context.counters = &counters;
  const Launch launch = context.launch(workspace_size(params, context.launch()));
  ErrorKind kind = ErrorKind::device_error;
  EXPECT_EQ(count([&] { kind = run(params, launch).kind; }), 0) << Op<Params>::kName;
  EXPECT_EQ(kind, ErrorKind::ok);
}

class Launches : public ::testing::TestWithParam<int> {};

// The very first call counts too: nothing is set up lazily.
TEST_P(Launches, OfTheCAbiAllocateNothing) {
  recoverssm_context* context = nullptr;
  ASSERT_EQ(recoverssm_context_create(GetParam(), &context), RECOVERSSM_OK) << recoverssm_last_error();
  for_every_operation([&]<class Params>(const Makers<Params>& makers) {
    for (auto make : makers) expect_no_allocation<Params>(make, context);
  });
  recoverssm_context_destroy(context);
}

TEST_P(Launches, OfTheCppApiAllocateNothing) {
  Context context(GetParam());
  for_every_operation([&]<class Params>(const Makers<Params>& makers) {
    for (auto make : makers) expect_no_allocation<Params>(make, context);
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, Launches, ::testing::Values(1, 3));

}  // namespace
}  // namespace c_api_tests
