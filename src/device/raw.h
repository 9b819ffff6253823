// Elements as bits, for what keeps the bits of an input beside its value: a float that passes through a conversion need not keep a NaN's.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/view.h"

namespace recoverssm::device {

template <class T>
using RawBits = std::conditional_t<std::is_same_v<T, F32>, std::uint32_t, std::uint16_t>;

template <class T>
RSSM_HOST_DEVICE float widen_raw(RawBits<T> bits) {
  if constexpr (std::is_same_v<T, F32>) {
    return arithmetic::float_of(bits);
  } else {
    return T::widen(bits);
  }
}

}  // namespace recoverssm::device
