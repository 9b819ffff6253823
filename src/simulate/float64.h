// The float64 check: the same tokens in another formulation (src/reference, which shares nothing with the library), by tolerance.
//
// Each stage is held against what really entered it: the convolution against the raw inputs, the rule against the convolution's outputs as
// they were rounded to T. So a tolerance has to cover fp32 arithmetic and one rounding, not a 16-bit rounding that went the other way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/reference.h"
#include "simulate/plain.h"

namespace recoverssm::simulate {

class Float64Run {
 public:
  explicit Float64Run(const std::vector<LayerModel>& layers);

  // The tokens that `plain` has just run, from `before` to `after`. Gives the first value that is off, or nothing.
  std::string advance(const Memory& before, const PlainRun& plain, const Memory& after);

  double worst() const { return worst_; }  // largest error beside the last rounding, as a share of what is allowed

 private:
  struct Layer {
    std::vector<reference::Head> heads;
    std::vector<reference::Matrix> states;   // per head; carried from the first token on for f32 states
    std::vector<reference::Vector> history;  // per channel
  };

  std::string check_conv(std::size_t l, const LayerRun& run);
  std::string check_rule(std::size_t l, const Memory& before, const LayerRun& run, const Memory& after);
  // Empty if got is near enough: `rounding` for the store, `arithmetic` for all before it.
  template <class What>
  std::string compare(double got, double want, double rounding, double arithmetic, What what);

  const std::vector<LayerModel>* layers_;
  std::vector<Layer> state_;
  std::int64_t tokens_ = 0;
  double worst_ = 0;
};

}  // namespace recoverssm::simulate
