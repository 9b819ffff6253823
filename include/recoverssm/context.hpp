// Context: the threads and the scratch memory of a caller that has none of its own.
#pragma once

#include <cstddef>
#include <memory>

#include "recoverssm/types.hpp"

namespace recoverssm {

// Owns a thread pool and a workspace that grows before a launch, never inside one. Not to be used by two threads at once; make one
// a caller thread. After fork, the child must make its own.
class Context {
 public:
  // threads: workers including the calling thread; 0: one a core.
  explicit Context(int threads = 1);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  // A launch with this context's threads, for asking a workspace size.
  Launch launch() const;
  // The same with at least `bytes` of workspace.
  Launch launch(std::size_t bytes);

  Target target = Target::best;
  Counters* counters = nullptr;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recoverssm
