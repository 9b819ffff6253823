#include "sycl/module/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "sycl/kernels/table.h"
#include "sycl/module/devices.h"
#include "sycl/module/sources.h"

namespace recoverssm::sycl_backend {
namespace {

namespace experimental = ::sycl::ext::oneapi::experimental;

std::atomic<int> wanted_sub_group{0};

// What identifies a program on a device.
using Key = std::pair<std::string_view, std::array<int, kDefines>>;

Key key_of(const Program& program) {
  std::array<int, kDefines> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = program.defines[i].value;
  return {program.header, values};
}

using Bundle = ::sycl::kernel_bundle<::sycl::bundle_state::executable>;

struct Built {
  Bundle bundle;
  std::map<std::string_view, ::sycl::kernel> kernels;  // those asked for; names are literals
};

// Programs of one device in one context. Entries stay where they are.
struct Programs {
  ::sycl::context context;
  ::sycl::device device;
  DeviceTraits traits;  // but for the sub-group size, which may be asked for anew
  std::vector<std::size_t> sub_groups;
  std::map<Key, Built> built;
};

std::mutex lock;

Programs& programs_of(const ::sycl::queue& queue) {
  static auto& all = *new std::vector<std::unique_ptr<Programs>>;  // never taken down: the runtime may be gone by then
  const ::sycl::context context = queue.get_context();
  const ::sycl::device device = queue.get_device();
  for (const auto& each : all) {
    if (each->context == context && each->device == device) return *each;
  }
  all.push_back(std::make_unique<Programs>(Programs{context, device, {}, {}, {}}));
  Programs& made = *all.back();
  made.traits.cpu = device.is_cpu();
  made.traits.compute_units = static_cast<int>(device.get_info<::sycl::info::device::max_compute_units>());
  made.sub_groups = device.get_info<::sycl::info::device::sub_group_sizes>();
  return made;
}

// Contraction is off: what is fused says so. Ids may pass 2^31.
std::vector<std::string> build_options() {
  return {"-I.",  // where the texts are
          "-O2",
          "-std=c++20",
          "-ffp-contract=off",
          "-fno-fast-math",
          "-fno-sycl-id-queries-fit-in-int",
          "-foffload-fp32-prec-div",
          "-foffload-fp32-prec-sqrt"};
}

Bundle build(const Programs& at, const Program& program) {
  std::string text = "#define RSSM_AT_RUN_TIME 1\n";
  for (const Define& define : program.defines) {
    if (define.name != nullptr) text += "#define " + std::string(define.name) + " " + std::to_string(define.value) + "\n";
  }
  text += "#include \"sycl/kernels/" + std::string(program.header) + "\"\n";
  experimental::include_files files;
  for (const Source& source : sources()) files.add(source.name, source.text);
  auto source = experimental::create_kernel_bundle_from_source(at.context, experimental::source_language::sycl, text,
                                                               experimental::properties{files});
  return experimental::build(source, std::vector{at.device},
                             experimental::properties{experimental::build_options{build_options()}});
}

constexpr Program kTable = {.header = "table.h", .defines = {}};

}  // namespace

::sycl::queue& queue_of(const Launch& launch) {
  return launch.stream == nullptr ? default_queue() : *static_cast<::sycl::queue*>(launch.stream);
}

void set_sub_group_size_wanted(int size) { wanted_sub_group = size; }

namespace {

int choose_sub_group(const std::vector<std::size_t>& sizes) {
  const auto has = [&](int size) { return std::find(sizes.begin(), sizes.end(), static_cast<std::size_t>(size)) != sizes.end(); };
  if (const int wanted = wanted_sub_group; wanted != 0 && has(wanted)) return wanted;
  const auto* const found = std::find_if(std::begin(kSubGroupSizes), std::end(kSubGroupSizes), has);
  return found == std::end(kSubGroupSizes) ? 0 : *found;
}

}  // namespace

int sub_group_size(const ::sycl::device& device) {
  return choose_sub_group(device.get_info<::sycl::info::device::sub_group_sizes>());
}

DeviceTraits traits_of(const ::sycl::queue& queue) {
  const std::scoped_lock held(lock);
  const Programs& at = programs_of(queue);
  DeviceTraits traits = at.traits;
  traits.sub_group = choose_sub_group(at.sub_groups);
  return traits;
}

const ::sycl::kernel& kernel_of(::sycl::queue& queue, const Program& program, const char* name) {
  const std::scoped_lock held(lock);
  Programs& at = programs_of(queue);
  auto built = at.built.find(key_of(program));
  if (built == at.built.end()) built = at.built.emplace(key_of(program), Built{build(at, program), {}}).first;
  auto kernel = built->second.kernels.find(name);
  if (kernel == built->second.kernels.end()) {
    kernel = built->second.kernels.emplace(name, built->second.bundle.ext_oneapi_get_kernel(name)).first;
  }
  return kernel->second;
}

void prepare_table(::sycl::queue& queue) { kernel_of(queue, kTable, "piece"); }

void write_table(::sycl::queue& queue, void* to, const void* from, std::size_t bytes) {
  const ::sycl::kernel& kernel = kernel_of(queue, kTable, "piece");
  constexpr std::size_t kPiece = kPieceWords * sizeof(std::uint64_t);
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t count = std::min(kPiece, bytes - at);
    PieceArgs piece;
    std::memcpy(piece.words, static_cast<const std::byte*>(from) + at, count);
    piece.to = reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(to) + at);
    piece.count = static_cast<std::int64_t>(count / sizeof(std::uint64_t));
    launch_kernel(queue, kernel, range_of(1, 1, ceil_div(piece.count, 32), 32), piece);
  }
}

}  // namespace recoverssm::sycl_backend
