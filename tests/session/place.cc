#include "session/place.h"

namespace session_tests {

OnHost::OnHost(const recoverssm::TensorView& given) {
  recoverssm::Status status = recoverssm::read_back(support::backend(), stream_of_calls(), given, bytes_, view);
  if (!status.ok()) throw recoverssm::Error(std::move(status));
}

}  // namespace session_tests
