// The source for a SYCL compiler, src/sycl/ahead/kernels.cc, read by the one that is there: that of run-time compilation compiles the file as it is
// for a device, and the device code that the runtime then writes out has every kernel of the list. It is not run: no code of a host's goes with it.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <sycl/sycl.hpp>
#include <vector>

#include "sycl/dry.h"

namespace {

namespace experimental = ::sycl::ext::oneapi::experimental;

// Kernels of a SPIR-V module: the names of its entry points.
std::vector<std::string> entry_points(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  constexpr std::size_t kHeader = 5, kName = 3;
  constexpr std::uint32_t kMagic = 0x07230203, kOpEntryPoint = 15;
  if (words.size() < kHeader || words[0] != kMagic) return {};
  std::vector<std::string> names;
  for (std::size_t at = kHeader; at < words.size();) {
    const std::uint32_t length = words[at] >> 16;
    if (length == 0 || at + length > words.size()) return {};
    if ((words[at] & 0xffffU) == kOpEntryPoint) names.emplace_back(bytes.c_str() + (at + kName) * 4);
    at += length;
  }
  return names;
}

TEST(SyclAhead, ItsSourceCompilesForADevice) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("recoverssm-ahead-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  setenv("SYCL_DUMP_IMAGES", "1", 1);
  setenv("SYCL_DUMP_IMAGES_PREFIX", (folder / "image_").c_str(), 1);
  ::sycl::device device;
  try {
    device = ::sycl::device(::sycl::default_selector_v);
  } catch (const ::sycl::exception& error) {
    GTEST_SKIP() << "left out: no SYCL here: " << error.what();
  }
  const ::sycl::context context(device);
  std::string log;
  auto source = experimental::create_kernel_bundle_from_source(context, experimental::source_language::sycl,
                                                               "#include \"sycl/ahead/kernels.cc\"\n");
  const std::vector<std::string> options = {"-I" RECOVERSSM_ROOT "/src", "-I" RECOVERSSM_ROOT "/include",
                                            RECOVERSSM_KERNEL_OPTIONS};
  try {
    experimental::compile(source, experimental::properties{experimental::build_options{options}, experimental::save_log{&log}});
  } catch (const ::sycl::exception& error) {
    FAIL() << error.what();
  }
  EXPECT_EQ(log, "");

  // Named<verify_kernel, Delta<...>>, mangled: "..13verify_kernel..".
  std::map<std::string, int> wanted, found;
  for (const std::string& name : dry::ahead()) ++wanted[name.substr(0, name.find(' '))];
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    for (const std::string& entry : entry_points(file.path())) {
      for (const auto& [kernel, count] : wanted) {
        const std::string tag = kernel + "_kernel";
        if (entry.find(std::to_string(tag.size()) + tag) != std::string::npos) ++found[kernel];
      }
    }
  }
  EXPECT_EQ(found, wanted);
  std::filesystem::remove_all(folder);
}

}  // namespace
