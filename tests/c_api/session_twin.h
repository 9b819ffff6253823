// The same session twice, through the C++ API and through the C ABI. Every call is made in both; results, errors and everything that can be
// looked at must agree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recoverssm/recoverssm.hpp"
#include "recoverssm/session.h"
#include "session/tiny.h"

namespace c_api_tests {

// A configuration for C, written by hand field by field.
class CConfig {
 public:
  explicit CConfig(const recoverssm::SessionConfig& from);
  CConfig(const CConfig&) = delete;
  CConfig& operator=(const CConfig&) = delete;

  recoverssm_session_config config;
  std::vector<recoverssm_layer_config> layers;
  std::vector<recoverssm_group_config> groups;
};

recoverssm_tensor c_tensor(const recoverssm::TensorView& view);

class Twin {
 public:
  explicit Twin(const session_tests::TinyShape& shape);
  ~Twin();

  // Each returns what both APIs gave; 0 or nothing where both refused, and the text of the refusal is in `refusal`.
  std::uint64_t admit();
  std::uint64_t admit(std::uint64_t prefix);
  void finish(std::uint64_t request);
  std::uint64_t finish_and_hold(std::uint64_t request);
  void preempt(std::uint64_t request);
  bool fits(std::span<const recoverssm::StepRow> rows);
  std::uint64_t open_step(std::span<const recoverssm::StepRow> rows);
  void forward(std::uint64_t step, std::int32_t tokens, std::uint32_t seed);
  void commit(std::uint64_t step, std::span<const recoverssm::Accepted> accepted);
  void abandon(std::uint64_t step);
  void materialize(std::span<const std::uint64_t> requests);
  std::vector<std::int64_t> exportable(std::uint64_t request);
  std::uint64_t fork(std::uint64_t request);
  std::uint64_t hold(std::uint64_t request, std::int64_t tokens);
  void release(std::uint64_t prefix);
  std::int64_t prefix_tokens(std::uint64_t prefix);
  std::vector<std::byte> export_checkpoint(std::uint64_t request, std::int64_t tokens, std::uint64_t tag);
  void restore(std::uint64_t request, std::span<const std::byte> checkpoint, std::int64_t tokens, std::uint64_t tag);
  recoverssm::RequestInfo info(std::uint64_t request);

  // Pools, tags, free blocks and counters.
  void expect_same();

  std::string refusal;  // of the last call; "" if it was accepted
  session_tests::Tiny model, c_model;
  recoverssm::Session cpp;
  recoverssm::Context context{1};
  recoverssm_session* c = nullptr;
  recoverssm_context* c_context = nullptr;

 private:
  template <class Cpp, class C>
  bool both(Cpp&& cpp_call, C&& c_call);
  template <class Cpp, class C>
  std::uint64_t handle(Cpp&& cpp_call, C&& c_call);
};

}  // namespace c_api_tests
