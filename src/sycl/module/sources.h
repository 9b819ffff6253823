// The texts of the kernels and of the headers they include, under the names they are included by; made by cmake/embed_sources.cmake, so
// that an installed library needs no source tree.
#pragma once

#include <span>

namespace recoverssm::sycl_backend {

struct Source {
  const char* name;
  const char* text;
};

std::span<const Source> sources();

}  // namespace recoverssm::sycl_backend
