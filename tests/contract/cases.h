// Tables of mistakes: a call that is right, one thing spoiled, and what the refusal must say.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "contract/contents.h"
#include "recoverssm/recoverssm.hpp"

namespace contract_tests {

using recoverssm::DType;
using recoverssm::ErrorKind;
using recoverssm::Status;
using recoverssm::TensorView;

constexpr ErrorKind kInvalid = ErrorKind::invalid_argument;
constexpr ErrorKind kRange = ErrorKind::out_of_range;
constexpr ErrorKind kBadState = ErrorKind::bad_state;
constexpr ErrorKind kOk = ErrorKind::ok;

using Words = std::vector<const char*>;

template <class Params>
struct Case {
  // A constructor, not an aggregate: gcc 12 fails on the default of `words` there.
  Case(const char* what_, std::function<void(Params&)> change_, ErrorKind kind_, Words words_ = {})
      : what(what_), change(std::move(change_)), kind(kind_), words(std::move(words_)) {}

  const char* what;
  std::function<void(Params&)> change;
  ErrorKind kind;
  Words words;
};

// validate, and where that passes the contents check, with a workspace of exactly the size asked for.
template <class Params>
Status check(const Params& params) {
  if (Status status = recoverssm::validate(params); !status.ok()) return status;
  const std::size_t bytes = recoverssm::contents_workspace_size(params);
  std::vector<std::uint64_t> memory((bytes + 7) / 8, 0xABABABABABABABAB);
  return recoverssm::validate_contents(params, {bytes == 0 ? nullptr : memory.data(), bytes});
}

// `make` gives a right call; every case changes a fresh one. The message starts with the op's name and holds the words.
template <class Params, class Make>
void run_cases(const std::string& op, Make&& make, const std::vector<Case<Params>>& cases) {
  {
    const Status status = check(make());
    EXPECT_TRUE(status.ok()) << op << ", the right call: " << status.message;
  }
  for (const Case<Params>& c : cases) {
    SCOPED_TRACE(op + ": " + c.what);
    Params params = make();
    c.change(params);
    const Status status = check(params);
    EXPECT_STREQ(recoverssm::name_of(status.kind), recoverssm::name_of(c.kind)) << status.message;
    if (c.kind == kOk) {
      EXPECT_TRUE(status.message.empty());
      continue;
    }
    EXPECT_EQ(status.message.rfind(op + ": ", 0), 0u) << status.message;
    for (const char* word : c.words) EXPECT_NE(status.message.find(word), std::string::npos) << word << " in: " << status.message;
  }
}

// An enum value that no name stands for, as a trace with an unknown word hands it over.
template <class Enum>
constexpr Enum unknown() {
  return static_cast<Enum>(255);
}

inline TensorView with_shape(TensorView view, int dim, std::int64_t size) {
  view.shape[static_cast<std::size_t>(dim)] = size;
  return view;
}
inline TensorView with_stride(TensorView view, int dim, std::int64_t stride) {
  view.stride[static_cast<std::size_t>(dim)] = stride;
  return view;
}
inline TensorView with_dtype(TensorView view, DType dtype) {
  view.dtype = dtype;
  return view;
}
inline TensorView without_data(TensorView view) {
  view.data = nullptr;
  return view;
}

}  // namespace contract_tests
