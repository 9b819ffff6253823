// The same calls on the host's copy of a scene and on a device's: runners, the copy, comparison of all its bytes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cuda/device.h"
#include "device/gpu.h"
#include "device/scene.h"

namespace device_test {

using recoverssm::Backend;
using recoverssm::Context;
using recoverssm::DeviceFlag;
using recoverssm::Launch;
using recoverssm::Status;

// Runs calls on one backend. A program measures its workspace first: on a device nothing may be allocated while a graph is captured.
class Runner {
 public:
  static Runner cpu() { return Runner(); }
  // The stream outlives the runner. `measure` is what the runner's calls will be. The workspace starts out as NaN, or (raw) as nobody has
  // written it.
  static Runner device(const gpu::Stream& stream, const std::function<void(Runner&)>& measure, bool raw = false);
  // The same through a Context of its own.
  static Runner context(const gpu::Stream& stream);

  template <class Params>
  void operator()(const Params& params) {
    if (measuring_) {
      needed_ = std::max(needed_, workspace_size(params, launch_));
      ++calls_;
      return;
    }
    if (before_) before_();
    const Launch launch = context_ ? context_->launch(workspace_size(params, context_->launch())) : launch_;
    if (Status status = run(params, launch); !status.ok()) throw std::runtime_error(status.message);
  }
  int calls() const { return calls_; }  // that were measured
  // Called in front of every call that is not only measured.
  void before(std::function<void()> f) { before_ = std::move(f); }
  // What kernels have found wrong. The device is waited for elsewhere.
  DeviceFlag flag() const;

 private:
  Runner() : context_(std::make_shared<Context>(1)) {}

  std::shared_ptr<Context> context_;  // null: launch_ is used
  std::shared_ptr<gpu::Memory> workspace_;
  std::shared_ptr<gpu::Pinned> flag_;
  std::function<void()> before_;
  Launch launch_{};
  bool measuring_ = false;
  std::size_t needed_ = 0;
  int calls_ = 0;
};

using Program = std::function<void(const Side&, Runner&)>;

// A scene's bytes in memory of the current device.
class Twin {
 public:
  explicit Twin(Scene& scene);
  Side side() const;
  void upload_all();
  void upload_inputs();  // what changes between replays
  // All bytes of the device's copy are the host's. Adds to compared().
  ::testing::AssertionResult same();
  std::int64_t compared() const { return compared_; }
  const gpu::Memory& memory() const { return memory_; }

 private:
  Scene& scene_;
  gpu::Memory memory_;
  std::int64_t compared_ = 0;
};

// Bytes of `got` are those of `want`, both of the scene's size.
::testing::AssertionResult same_scene(const Scene& scene, const std::byte* got, const std::byte* want);

// No kernel has found anything wrong.
::testing::AssertionResult no_finding(const Runner& runner);

// A line of the log, with figures: "[ SAW      ] ...".
void saw(const std::string& text);
std::string millions(std::int64_t bytes);  // "48.1 MB"

}  // namespace device_test
