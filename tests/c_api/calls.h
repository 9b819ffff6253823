// Right calls of every operation, twice the same; their tensors; and every way to spoil one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "c_api/fields.h"
#include "contract/good_calls.h"
#include "to_c.h"

namespace c_api_tests {

using contract_tests::Calls;

// One operation's calls: make(calls) builds params on tensors of `calls`.
template <class Params>
using Makers = std::vector<Params (*)(Calls&)>;

// Calls body(makers) for every operation.
template <class Body>
void for_every_operation(Body&& body) {
  using namespace recoverssm;
  body(Makers<SplitProjectionsParams>{[](Calls& c) { return c.split(Layout::flat); },
                                      [](Calls& c) { return c.split(Layout::interleaved); }});
  body(Makers<CausalConv1dParams>{[](Calls& c) { return c.conv(); }});
  body(Makers<CausalConv1dWindowParams>{[](Calls& c) { return c.conv_window(); }});
  body(Makers<GatedDeltaRuleParams>{[](Calls& c) { return c.rule(Gate::gdn); }, [](Calls& c) { return c.lazy_rule(Gate::kda); }});
  body(Makers<GatedDeltaRuleSnapshotsParams>{[](Calls& c) { return c.snapshots(); }});
  body(Makers<GatedDeltaRuleVerifyParams>{[](Calls& c) { return c.verify(Gate::kda); },
                                          [](Calls& c) { return c.lazy_verify(Gate::gdn); }});
  body(Makers<CommitPlanParams>{[](Calls& c) { return c.plan(); }});
  body(Makers<CommitPlanGroupsParams>{[](Calls& c) { return c.plan_groups(); }});
  body(Makers<CommitParams>{[](Calls& c) { return c.commit(Gate::gdn); }, [](Calls& c) { return c.commit(Gate::kda); }});
  body(Makers<MaterializeParams>{[](Calls& c) { return c.materialize(); }});
  body(Makers<AlignMoveParams>{[](Calls& c) { return c.align_move(); }});
  body(Makers<AlignAdvanceParams>{[](Calls& c) { return c.align_advance(); }});
  body(Makers<ShortConvParams>{[](Calls& c) { return c.short_conv(LineKind::anchored); },
                               [](Calls& c) { return c.short_conv(LineKind::plain); }});
  body(Makers<GdnAttentionParams>{[](Calls& c) { return c.attention_verify(); }, [](Calls& c) { return c.attention_snapshots(); }});
}

// One value of a call's params; an enum is its byte.
struct Leaf {
  std::string name;
  std::variant<recoverssm::TensorView*, std::int32_t*, std::uint8_t*, bool*, float*, std::optional<float>*,
               std::optional<std::int32_t>*>
      at;
};

// The visitor of src/c_api/fields.h that lists them, those of nested structs and lists included.
struct Leaves {
  std::vector<Leaf> all;

  template <class C, class Cpp>
  void field(const char* name, C& /*c*/, Cpp& cpp) {
    if constexpr (std::is_enum_v<Cpp>) {
      all.push_back({name, reinterpret_cast<std::uint8_t*>(&cpp)});
    } else {
      all.push_back({name, &cpp});
    }
  }
  template <class C, class Cpp>
  void optional(const char* name, std::int32_t& /*has*/, C& /*c*/, std::optional<Cpp>& cpp) {
    all.push_back({name, &cpp});
  }
  template <class C, class Cpp>
  void nested(const char* /*name*/, const C*& /*c*/, Cpp& cpp) {
    C unused{};
    recoverssm::c_api::fields(*this, unused, cpp);
  }
  template <class C, class Cpp>
  void maybe(const char* name, const C*& c, Cpp& cpp) {
    nested(name, c, cpp);
  }
  template <class C, class Cpp>
  void maybe(const char* name, const C*& c, std::optional<Cpp>& cpp) {
    if (cpp) nested(name, c, *cpp);
  }
  template <class C, class Cpp>
  void list(const char* name, const C*& c, std::size_t& /*count*/, std::span<const Cpp>& cpp) {
    for (const Cpp& one : cpp) nested(name, c, const_cast<Cpp&>(one));  // the Calls own the list, and nothing of it is const
  }
  template <class C>
  void reserved(C& /*c*/) {}
};

template <class Params>
std::vector<Leaf> leaves_of(Params& params) {
  Leaves leaves;
  typename Op<Params>::C unused{};
  recoverssm::c_api::fields(leaves, unused, params);
  return std::move(leaves.all);
}

// The tensors that are there.
std::vector<recoverssm::TensorView> tensors_of(const std::vector<Leaf>& leaves);

// Random numbers in every float tensor, the same for the same params.
void fill_floats(const std::vector<Leaf>& leaves);

// What a caller may get wrong, in every leaf.
struct Fault {
  std::string text;
  std::function<void()> apply;
  bool beyond = false;  // the view reaches beyond its memory: not to be run if validate cannot know that it is wrong
};
std::vector<Fault> faults_of(const std::vector<Leaf>& leaves);

// A workspace of a launch, aligned.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes), memory_(bytes + recoverssm::kWorkspaceAlignment) {}
  std::byte* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() +
           (recoverssm::kWorkspaceAlignment - at % recoverssm::kWorkspaceAlignment) % recoverssm::kWorkspaceAlignment;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

}  // namespace c_api_tests
