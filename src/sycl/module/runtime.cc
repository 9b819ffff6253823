#include "sycl/module/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sycl/kernels/table.h"
#include "sycl/module/compile.h"
#include "sycl/module/devices.h"
#include "sycl/module/made_once.h"

namespace recoverssm::sycl_backend {
namespace {

std::atomic<int> wanted_sub_group{0};

// What identifies a program on a device.
using Key = std::pair<std::string_view, std::array<int, kDefines>>;

Key key_of(const Program& program) {
  std::array<int, kDefines> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = program.defines[i].value;
  return {program.header, values};
}

// A program that is there.
class Built {
 public:
  explicit Built(Bundle bundle) : bundle_(std::move(bundle)) {}
  explicit Built(std::map<std::string_view, Kernel> ahead) : kernels_(std::move(ahead)) {}

  const Kernel& kernel(const char* name) {
    const std::scoped_lock held(lock_);
    auto kernel = kernels_.find(name);
    if (kernel == kernels_.end()) kernel = kernels_.emplace(name, Kernel{bundle_.value().ext_oneapi_get_kernel(name)}).first;
    return kernel->second;
  }

 private:
  std::mutex lock_;
  std::optional<Bundle> bundle_;                // of one compiled at run time
  std::map<std::string_view, Kernel> kernels_;  // of such a one those asked for; names are literals
};

// Programs of one device in one context. Entries stay where they are.
struct Programs {
  Programs(const ::sycl::context& c, const ::sycl::device& d) : context(c), device(d) {}

  ::sycl::context context;
  ::sycl::device device;
  DeviceTraits traits;  // but for the sub-group size, which may be asked for anew
  std::vector<std::size_t> sub_groups;
  MadeOnce<Key, Built> built;
};

Programs& programs_of(const ::sycl::queue& queue) {
  static auto& all = *new std::list<Programs>;  // never taken down: the runtime may be gone by then
  static std::mutex lock;
  const ::sycl::context context = queue.get_context();
  const ::sycl::device device = queue.get_device();
  const std::scoped_lock held(lock);
  for (Programs& each : all) {
    if (each.context == context && each.device == device) return each;
  }
  const auto compute_units = static_cast<int>(device.get_info<::sycl::info::device::max_compute_units>());
  std::vector<std::size_t> sub_groups = device.get_info<::sycl::info::device::sub_group_sizes>();
  Programs& made = all.emplace_back(context, device);  // once everything that may throw is behind
  made.traits.cpu = device.is_cpu();
  made.traits.compute_units = compute_units;
  made.sub_groups = std::move(sub_groups);
  return made;
}

// Whether there is code for the device.
bool runs_on(const AheadKernel& kernel, const ::sycl::device& device) {
  try {
    return kernel.runs_on(device);
  } catch (const ::sycl::exception&) {
    return false;
  }
}

std::unique_ptr<Built> find_or_compile(const Programs& at, const Program& program) {
  std::map<std::string_view, Kernel> ahead;
  bool all_run = true;
  for (const AheadKernel& kernel : ahead_kernels()) {
    if (key_of(kernel.program) != key_of(program)) continue;
    all_run = all_run && runs_on(kernel, at.device);
    ahead[kernel.name] = {{}, kernel.launch};
  }
  if (all_run && !ahead.empty()) return std::make_unique<Built>(std::move(ahead));
  try {
    return std::make_unique<Built>(compile(at.context, at.device, program));
  } catch (const ::sycl::exception& error) {
    if (error.code() != ::sycl::errc::build) throw;
    throw ::sycl::exception(
        error.code(), std::string(program.header) + " failed to compile, and is not tried again in this process: " + error.what());
  }
}

// The compiler would say the same again; memory or a device may be there the next time.
bool fails_again(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ::sycl::exception& error) {
    return error.code() == ::sycl::errc::build;
  } catch (...) {
    return false;
  }
}

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
  const Programs& at = programs_of(queue);
  DeviceTraits traits = at.traits;
  traits.sub_group = choose_sub_group(at.sub_groups);
  return traits;
}

const Kernel& kernel_of(::sycl::queue& queue, const Program& program, const char* name) {
  Programs& at = programs_of(queue);
  return at.built
      .get(
          key_of(program), [&] { return find_or_compile(at, program); }, fails_again)
      .kernel(name);
}

void prepare_table(::sycl::queue& queue) { kernel_of(queue, kTableProgram, "piece"); }

void write_table(::sycl::queue& queue, void* to, const void* from, std::size_t bytes) {
  const Kernel& kernel = kernel_of(queue, kTableProgram, "piece");
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
