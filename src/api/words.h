// What the contract's choices are called where they are text: in traces and in the arguments of the PyTorch operations.
#pragma once

#include <utility>

#include "recoverssm/recoverssm.hpp"

namespace recoverssm {

inline constexpr std::pair<const char*, Gate> kGates[] = {{"gdn", Gate::gdn}, {"kda", Gate::kda}};
inline constexpr std::pair<const char*, Layout> kLayouts[] = {{"interleaved", Layout::interleaved}, {"flat", Layout::flat}};
inline constexpr std::pair<const char*, Activation> kActivations[] = {{"silu", Activation::silu}};
inline constexpr std::pair<const char*, WindowMode> kModes[] = {{"snapshots", WindowMode::snapshots},
                                                                {"verify", WindowMode::verify}};
inline constexpr std::pair<const char*, LineKind> kLineKinds[] = {
    {"plain", LineKind::plain}, {"rolled", LineKind::rolled}, {"anchored", LineKind::anchored}};

}  // namespace recoverssm
