// The one exception of the trace reader.
#pragma once

#include <stdexcept>

namespace recoverssm::trace {

// A file that cannot be read, or that is not a trace. what() names the place in the file and what was expected there.
class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace recoverssm::trace
