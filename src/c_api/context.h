// recoverssm_context: a Context that knows the process it belongs to. A context of another process has no threads here.
#pragma once

#include <unistd.h>

#include <string>
#include <utility>

#include "c_api/status.h"
#include "recoverssm/context.hpp"

struct recoverssm_context {
  explicit recoverssm_context(int count) : context(count), threads(context.launch().parallel) {}
  explicit recoverssm_context(recoverssm::Context&& made) : context(std::move(made)) {}
  bool here() const { return getpid() == owner; }

  recoverssm::Context context;
  recoverssm::ParallelFor threads;
  pid_t owner = getpid();
};

namespace recoverssm::c_api {

// Refuses a context that cannot be used.
inline Status check_context(const char* op, const recoverssm_context* context) {
  if (context == nullptr) return invalid(op, "context", "null", "a context");
  if (context->here()) return {};
  return {ErrorKind::bad_state, std::string(op) + ": context: made by process " + std::to_string(context->owner) + ", this is " +
                                    std::to_string(getpid()) + ", expected one made after the fork"};
}

}  // namespace recoverssm::c_api
