// The C ABI's validation against hostile structs: validate, query_support and workspace_size of every operation must answer whatever the
// numbers in the structs are, and must not touch a tensor. An input is an operation and a list of changes to a right call, so that a few
// bytes reach every check; the tensors' data pointers are addresses that nobody has, so that a read is a crash.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "c_api/fields.h"
#include "c_api/to_c.h"
#include "contract/good_calls.h"

namespace {

using namespace c_api_tests;

void demand(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s (last error: %s)\n", what, recoverssm_last_error());
  std::abort();
}

// A number or pointer in a C struct that the input may set.
struct Leaf {
  enum class Kind : std::uint8_t { number, pointer, size };
  Kind kind;
  void* at;
  std::size_t bytes;
  std::uint64_t most = UINT64_MAX;  // size: the memory that is really there
};

// The visitor of src/c_api/fields.h that lists the leaves of a C call, those of nested structs included.
struct Leaves {
  std::vector<Leaf> all;

  template <class C, class Cpp>
  void whole(C& c, Cpp& cpp, std::size_t room) {
    all.push_back({Leaf::Kind::size, &c.struct_size, sizeof c.struct_size, room});
    recoverssm::c_api::fields(*this, c, cpp);
  }
  template <class C, class Cpp>
  void field(const char* /*name*/, C& c, Cpp& /*cpp*/) {
    if constexpr (std::is_same_v<C, recoverssm_tensor>) {
      // One address for each tensor, far from the others', so that overlaps are for the input to make.
      static std::uintptr_t next = 0;
      c.data = reinterpret_cast<void*>(++next << 36);
      for (std::int64_t& n : c.shape) number(n);
      for (std::int64_t& n : c.stride) number(n);
      for (std::int64_t& n : c.reserved) number(n);
      number(c.data), number(c.dtype), number(c.dims);
    } else if constexpr (!std::is_pointer_v<C>) {
      number(c);
    }
  }
  template <class C, class Cpp>
  void optional(const char* /*name*/, std::int32_t& has, C& c, Cpp& /*cpp*/) {
    number(has), number(c);
  }
  template <class C, class Cpp>
  void nested(const char* /*name*/, const C*& c, Cpp& /*cpp*/) {
    if (c == nullptr) return;
    all.push_back({Leaf::Kind::pointer, &c, sizeof c});
    Target<Cpp> cpp;
    whole(const_cast<C&>(*c), cpp.value, sizeof(C));
  }
  template <class C, class Cpp>
  void maybe(const char* name, const C*& c, Cpp& cpp) {
    nested(name, c, cpp);
  }
  template <class C, class Cpp>
  void list(const char* /*name*/, const C*& c, std::size_t& count, std::span<const Cpp>& /*cpp*/) {
    all.push_back({Leaf::Kind::pointer, &c, sizeof c});
    all.push_back({Leaf::Kind::size, &count, sizeof count, count});
    for (std::size_t i = 0; i < count; ++i) {
      Cpp cpp;
      whole(const_cast<C&>(c[i]), cpp, sizeof(C));
    }
  }
  template <class C>
  void reserved(C& c) {
    number(c);
  }

 private:
  template <class T>
  struct Target {
    T value{};
  };
  template <class T>
  struct Target<std::optional<T>> {
    T value{};
  };
  template <class T>
  void number(T& at) {
    all.push_back({Leaf::Kind::number, &at, sizeof at});
  }
};

// Bytes of an input, zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  template <class T>
  T take() {
    T value{};
    const std::size_t n = std::min(size_, sizeof value);
    std::memcpy(&value, data_, n);
    data_ += n, size_ -= n;
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

constexpr std::int64_t kInteresting[] = {0,
                                         1,
                                         2,
                                         3,
                                         4,
                                         6,
                                         8,
                                         16,
                                         -1,
                                         -2,
                                         5,
                                         7,
                                         255,
                                         256,
                                         257,
                                         65536,
                                         INT32_MAX,
                                         INT32_MIN,
                                         UINT32_MAX,
                                         1LL << 32,
                                         1LL << 40,
                                         1LL << 58,
                                         1LL << 60,
                                         1LL << 61,
                                         1LL << 62,
                                         INT64_MAX,
                                         INT64_MIN,
                                         -(1LL << 40),
                                         INT64_MAX / 2,
                                         INT64_MAX / 4,
                                         INT64_MIN + 1,
                                         64};

// Changes leaves of a call while it lives.
class Changes {
 public:
  explicit Changes(const std::vector<Leaf>& leaves) : leaves_(leaves) {}
  ~Changes() {
    for (auto change = undo_.rbegin(); change != undo_.rend(); ++change)
      std::memcpy(change->leaf->at, &change->before, change->leaf->bytes);
  }

  void apply(Input& input) {
    const Leaf& leaf = leaves_[input.take<std::uint16_t>() % leaves_.size()];
    Change change{&leaf, 0};
    std::memcpy(&change.before, leaf.at, leaf.bytes);
    const auto how = input.take<std::uint8_t>();
    std::uint64_t value = 0;
    if (how < 64) {
      value = static_cast<std::uint64_t>(kInteresting[how % std::size(kInteresting)]);
    } else if (how < 128) {
      value = change.before + static_cast<std::uint64_t>(std::int64_t{how} - 96);
    } else if (how < 192) {
      const Leaf& other = leaves_[input.take<std::uint16_t>() % leaves_.size()];
      if (other.kind == Leaf::Kind::pointer) return;
      std::memcpy(&value, other.at, std::min(other.bytes, leaf.bytes));
    } else {
      value = input.take<std::uint64_t>();
    }
    // A struct pointer is right or null. A size says how much memory there is: less, or so much that it is not even looked at.
    if (leaf.kind == Leaf::Kind::pointer) value = 0;
    if (leaf.kind == Leaf::Kind::size && value > leaf.most && value < (1U << 20)) value %= leaf.most + 1;
    undo_.push_back(change);
    std::memcpy(leaf.at, &value, leaf.bytes);
  }

 private:
  struct Change {
    const Leaf* leaf;
    std::uint64_t before;
  };
  const std::vector<Leaf>& leaves_;
  std::vector<Change> undo_;
};

struct Call {
  std::vector<Leaf> leaves;
  std::function<void()> ask;
};

recoverssm_launch launch;

template <class Params>
Call call_of(const Params& params) {
  using C = typename Op<Params>::C;
  static ToC convert;
  // Room behind the params for the bytes of a newer version.
  static std::vector<std::unique_ptr<std::uint64_t[]>> memories;
  std::uint64_t* const memory = memories.emplace_back(new std::uint64_t[sizeof(C) / 8 + 64]()).get();
  auto* const c = new (memory) C(convert(params));
  Leaves leaves;
  Params cpp;
  leaves.whole(*c, cpp, sizeof(C) + 256);
  for (std::size_t i = 0; i < 4; ++i) leaves.all.push_back({Leaf::Kind::number, memory + sizeof(C) / 8 + i, 8});
  recoverssm::c_api::LaunchParts parts;
  leaves.whole(launch, parts, sizeof launch);
  const auto ask = [c] {
    const int valid = Op<Params>::validate(c);
    demand(valid >= RECOVERSSM_OK && valid <= RECOVERSSM_OUT_OF_MEMORY, "validate: a status that is none");
    if (valid != RECOVERSSM_OK) {
      demand(std::strncmp(recoverssm_last_error(), Op<Params>::kName, std::strlen(Op<Params>::kName)) == 0,
             "the error names its operation");
    }
    const int supported = Op<Params>::query_support(c);
    demand(valid != RECOVERSSM_OK || supported == RECOVERSSM_OK || supported == RECOVERSSM_UNSUPPORTED,
           "query_support of a right call");
    std::size_t bytes = 1;
    const int sized = Op<Params>::workspace_size(c, &launch, &bytes);
    demand(valid == RECOVERSSM_OK || sized != RECOVERSSM_OK, "workspace_size of a refused call");
    demand(sized == RECOVERSSM_OK || bytes == 0, "bytes of a refused call");
  };
  return {std::move(leaves.all), ask};
}

std::vector<Call> all_calls() {
  static contract_tests::Calls calls;
  using recoverssm::Gate;
  recoverssm_launch_init(&launch, sizeof launch);
  auto align_move = calls.align_move();
  std::vector<Call> all;
  all.push_back(call_of(calls.split()));
  all.push_back(call_of(calls.conv()));
  all.push_back(call_of(calls.conv_window()));
  all.push_back(call_of(calls.rule(Gate::kda)));
  all.push_back(call_of(calls.lazy_rule()));
  all.push_back(call_of(calls.snapshots()));
  all.push_back(call_of(calls.verify(Gate::kda)));
  all.push_back(call_of(calls.lazy_verify()));
  all.push_back(call_of(calls.plan()));
  all.push_back(call_of(calls.plan_groups()));
  all.push_back(call_of(calls.commit()));
  all.push_back(call_of(calls.commit(Gate::kda)));
  all.push_back(call_of(calls.materialize()));
  all.push_back(call_of(align_move));
  all.push_back(call_of(calls.align_advance()));
  all.push_back(call_of(calls.short_conv()));
  all.push_back(call_of(calls.attention_verify()));
  all.push_back(call_of(calls.attention_snapshots()));
  for (const Call& call : all) call.ask();
  return all;
}

void ask_sizes(Input& input) {
  recoverssm_geometry geometry;
  recoverssm_geometry_init(&geometry, sizeof geometry);
  for (std::int32_t* field : {&geometry.H, &geometry.HV, &geometry.K, &geometry.V, &geometry.W, &geometry.channels, &geometry.S,
                              &geometry.gate, &geometry.activation, &geometry.state}) {
    *field = input.take<std::uint8_t>() % 2 == 0 ? input.take<std::uint8_t>() : input.take<std::int32_t>();
  }
  recoverssm_request_sizes sizes;
  recoverssm_request_sizes_init(&sizes, sizeof sizes);
  if (recoverssm_sizes(&geometry, &sizes) != RECOVERSSM_OK) return;
  demand(sizes.state >= 0 && sizes.records >= 0 && sizes.page_anchored >= sizes.page_rolled && sizes.page_rolled >= sizes.state,
         "sizes of a geometry");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Call> calls = all_calls();
  Input input(data, size);
  const std::size_t which = input.take<std::uint8_t>() % (calls.size() + 1);
  if (which == calls.size()) {
    ask_sizes(input);
    return 0;
  }
  Changes changes(calls[which].leaves);
  for (int i = 0; i < 32 && !input.empty(); ++i) changes.apply(input);
  calls[which].ask();
  return 0;
}
