#include "sycl/module/compile.h"

#include <string>
#include <vector>

#include "sycl/module/sources.h"

namespace recoverssm::sycl_backend {
namespace {

namespace experimental = ::sycl::ext::oneapi::experimental;

// Those of ahead-of-time compilation as well (cmake/sycl.cmake).
std::vector<std::string> build_options() {
  return {"-I.",  // where the texts are
          RECOVERSSM_KERNEL_OPTIONS};
}

std::string text_of(const Program& program) {
  std::string text = "#define RSSM_AT_RUN_TIME 1\n";
  for (const Define& define : program.defines) {
    if (define.name != nullptr) text += "#define " + std::string(define.name) + " " + std::to_string(define.value) + "\n";
  }
  return text + "#include \"sycl/kernels/" + std::string(program.header) + "\"\n";
}

}  // namespace

Bundle compile(const ::sycl::context& context, const ::sycl::device& device, const Program& program) {
  experimental::include_files files;
  for (const Source& source : sources()) files.add(source.name, source.text);
  auto source = experimental::create_kernel_bundle_from_source(context, experimental::source_language::sycl, text_of(program),
                                                               experimental::properties{files});
  return experimental::build(source, std::vector{device}, experimental::properties{experimental::build_options{build_options()}});
}

}  // namespace recoverssm::sycl_backend
