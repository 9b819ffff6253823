#include "cuda/range.h"

#ifdef RECOVERSSM_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace recoverssm::cuda {

#ifdef RECOVERSSM_NVTX

namespace {

// NVTX looks in the environment for a tool when it is first used. That is now, when the library is loaded, and never inside an operation. Null without a tool.
const nvtxDomainHandle_t domain = nvtxDomainCreateA("recoverssm");

}  // namespace

Range::Range(const char* name) {
  if (domain == nullptr) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain, &attributes);
}

Range::~Range() {
  if (domain != nullptr) nvtxDomainRangePop(domain);
}

#else

Range::Range(const char*) {}
Range::~Range() {}

#endif

}  // namespace recoverssm::cuda
