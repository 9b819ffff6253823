// Which backend the tests' calls run on. RECOVERSSM_TEST_BACKEND=cuda or sycl has test memory and workspaces lie where host and device reach them, and
// try_run wait for the device: properties, grids and tables then check the device with the code that checks the CPU. Anything else: the CPU.
// RECOVERSSM_TEST_MEMORY=managed takes managed memory in place of pinned host memory.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory_resource>
#include <vector>

#include "recoverssm/types.hpp"

// First line of a test about something only the CPU has. Not inside property().
#define RECOVERSSM_CPU_ONLY(why) \
  if (support::on_device()) GTEST_SKIP() << "left out on " << recoverssm::name_of(support::backend()) << ": " << (why)

namespace support {

// Ends the program if the variable names a backend that is unknown or cannot run here.
recoverssm::Backend backend();
inline bool on_device() { return backend() != recoverssm::Backend::cpu; }

// Whether calls count what they move. False on a device, which says so once: the test leaves its counters alone then.
bool counting();

// Where memory that calls see comes from: the heap, or memory shared with the device. Blocks are aligned to 64 bytes.
std::pmr::memory_resource* memory_of_calls();
using Bytes = std::pmr::vector<std::byte>;

// A launch on the device without a workspace: a stream, and the flag below.
recoverssm::Launch device_launch();
// Waits for it.
recoverssm::Status wait_for_device();
// What has been reported since the last time.
recoverssm::DeviceFlag take_flag();

}  // namespace support
