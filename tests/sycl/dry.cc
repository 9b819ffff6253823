#include "sycl/dry.h"

#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "sycl/ahead/kernels.h"
#include "sycl/kernels/exact.h"
#include "sycl/module/compile.h"

namespace recoverssm::sycl_backend {

std::span<const AheadKernel> listed_kernels();  // ahead/kernels.cc, whose ahead_kernels is called this here (CMakeLists.txt)

namespace {

constexpr std::size_t kMost = 128;  // kernels of the list: each needs a function of its own here

std::mutex lock;
std::array<bool, kMost> seen{};
std::set<std::string> withheld;
std::function<void(const std::string&)> compiler;

std::string name_of(const Program& program, const char* kernel) {
  std::string text = std::string(kernel) + " of " + program.header;
  for (const Define& define : program.defines) {
    if (define.name == nullptr || std::string_view(define.name) == "RSSM_SUB_GROUPS") continue;
    text += std::string(" ") + define.name + "=" + std::to_string(define.value);
  }
  return text;
}

template <std::size_t I>
void pretend(::sycl::queue& queue, const ::sycl::nd_range<3>&, const void* args, std::size_t) {
  {
    const std::scoped_lock held(lock);
    seen[I] = true;
  }
  if (std::string_view(listed_kernels()[I].name) != "exact") return;
  // Without this one nothing else is supported. The CPU device's memory is the host's.
  const auto& exact = *static_cast<const ExactArgs*>(args);
  queue.wait_and_throw();
  for (std::int64_t i = 0; i < exact.count; ++i) exact.results[i] = exact_results(exact.cases[i]);
}

template <std::size_t... I>
constexpr std::array<AheadLaunch, kMost> pretenders(std::index_sequence<I...>) {
  return {pretend<I>...};
}

}  // namespace

std::span<const AheadKernel> ahead_kernels() {
  static constexpr std::array<AheadLaunch, kMost> kPretenders = pretenders(std::make_index_sequence<kMost>());
  const std::span<const AheadKernel> listed = listed_kernels();
  const std::scoped_lock held(lock);
  static auto& lists = *new std::vector<std::vector<AheadKernel>>;  // a span of one is in use while another is made
  std::vector<AheadKernel>& all = lists.emplace_back();
  for (std::size_t i = 0; i < listed.size(); ++i) {
    AheadKernel kernel = listed[i];
    if (withheld.contains(kernel.program.header)) continue;
    for (Define& define : kernel.program.defines) {
      if (define.name != nullptr && std::string_view(define.name) == "RSSM_SUB_GROUPS") define.value = sub_groups_of({.cpu = true});
    }
    kernel.runs_on = [](const ::sycl::device&) { return true; };
    kernel.launch = kPretenders.at(i);
    all.push_back(kernel);
  }
  return all;
}

Bundle compile(const ::sycl::context&, const ::sycl::device&, const Program& program) {
  std::function<void(const std::string&)> call;
  {
    const std::scoped_lock held(lock);
    call = compiler;
  }
  if (call) call(program.header);
  throw ::sycl::exception(::sycl::make_error_code(::sycl::errc::build), "not in the list of src/sycl/ahead/kernels.cc");
}

}  // namespace recoverssm::sycl_backend

namespace dry {

using namespace recoverssm::sycl_backend;

Names ahead() {
  Names names;
  for (const AheadKernel& kernel : listed_kernels()) names.insert(name_of(kernel.program, kernel.name));
  return names;
}

Names launched() {
  const std::scoped_lock held(lock);
  Names names;
  for (std::size_t i = 0; i < listed_kernels().size(); ++i) {
    if (seen[i]) names.insert(name_of(listed_kernels()[i].program, listed_kernels()[i].name));
  }
  return names;
}

void withhold(std::set<std::string> headers) {
  const std::scoped_lock held(lock);
  withheld = std::move(headers);
}

void set_compiler(std::function<void(const std::string& header)> function) {
  const std::scoped_lock held(lock);
  compiler = std::move(function);
}

}  // namespace dry
