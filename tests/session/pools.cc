#include "session/pools.h"

#include <cstring>

namespace session_tests {

using recoverssm::LayerConfig;
using recoverssm::LayerKind;
using recoverssm::LayerPool;
using recoverssm::TensorView;

namespace {

constexpr std::int64_t kGap = 64;

std::byte pattern(std::size_t i) { return static_cast<std::byte>(i % 2 == 0 ? 0xFF : 0x7F); }

// A tensor of every block: where it begins in the page, the shape of one block's part.
struct Part {
  TensorView LayerPool::*view = nullptr;
  TensorView recoverssm::Records::*record = nullptr;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

std::vector<Part> parts_of(const recoverssm::SessionConfig& config, const LayerConfig& layer) {
  using recoverssm::Records;
  const bool rule = layer.kind != LayerKind::short_conv;
  const std::int64_t S = config.window_capacity, C = rule ? 2 * layer.H * layer.K + layer.HV * layer.V : layer.channels;
  const std::int64_t history = layer.W == 0 ? 0 : (layer.W - 1) * (rule ? 1 : layer.dilation);
  std::vector<Part> parts;
  if (layer.W > 0) {
    parts.push_back({.view = &LayerPool::line,
                     .dtype = layer.activation,
                     .shape = {history + S - (config.line_kind == LineKind::rolled ? 1 : 0), C}});
  }
  if (!rule) return parts;
  parts.push_back({.view = &LayerPool::state, .dtype = layer.state, .shape = {layer.HV, layer.V, layer.K}});
  if (layer.kind == LayerKind::gdn) {
    parts.push_back({.record = &Records::packed, .shape = {layer.HV, S, layer.V + layer.K + 1}});
  } else {
    parts.push_back({.record = &Records::corrections, .shape = {layer.HV, S, layer.V}});
    parts.push_back({.record = &Records::key_gate, .dtype = layer.activation, .shape = {layer.HV, S, 2 * layer.K}});
  }
  if (config.lazy) parts.push_back({.view = &LayerPool::pending, .dtype = DType::i32, .shape = {}});
  return parts;
}

std::int64_t bytes_of(const Part& part) {
  std::int64_t n = recoverssm::size_of(part.dtype);
  for (const std::int64_t size : part.shape) n *= size;
  return n;
}

}  // namespace

Pages::Pages(const recoverssm::SessionConfig& config, std::int32_t more_blocks) : config_(config) {
  for (const LayerConfig& layer : config.layers) {
    const std::vector<Part> parts = parts_of(config, layer);
    const std::int64_t blocks = config.groups[static_cast<std::size_t>(layer.group)].blocks + more_blocks;
    Page page;
    page.bytes = kGap;
    for (const Part& part : parts) page.bytes += (bytes_of(part) + 15) / 16 * 16 + kGap;
    page.memory.resize(static_cast<std::size_t>(page.bytes * blocks));
    for (std::size_t i = 0; i < page.memory.size(); ++i) page.memory[i] = pattern(i);
    page.tensor.resize(page.memory.size());
    pages_.push_back(std::move(page));
    pools.emplace_back();
    std::int64_t at = kGap;
    for (const Part& part : parts) {
      TensorView view;
      view.data = pages_.back().memory.data() + at;
      view.dtype = part.dtype;
      view.dims = static_cast<int>(part.shape.size()) + 1;
      view.shape[0] = blocks, view.stride[0] = pages_.back().bytes / recoverssm::size_of(part.dtype);
      std::int64_t stride = 1;
      for (std::size_t d = part.shape.size(); d-- > 0;) {
        view.shape[d + 1] = part.shape[d], view.stride[d + 1] = stride;
        stride *= part.shape[d];
      }
      if (part.record != nullptr) {
        pools.back().records.*part.record = view;
      } else {
        pools.back().*part.view = view;
      }
      // Pending counts of all blocks, also of the null block and of those the session does not use, are set to 0.
      const bool all = part.view == &LayerPool::pending;
      for (std::int64_t b = all ? 0 : config.null_block_id + 1; b < (all ? blocks : blocks - more_blocks); ++b) {
        for (std::int64_t i = 0; i < bytes_of(part); ++i)
          pages_.back().tensor[static_cast<std::size_t>(b * page.bytes + at + i)] = true;
      }
      at += (bytes_of(part) + 15) / 16 * 16 + kGap;
    }
  }
}

void Pages::fill(float value) const {
  fill_free(value, [](auto, auto) { return true; });
}

void Pages::fill_free(float value, const std::function<bool(std::int32_t, std::int32_t)>& which) const {
  for (std::size_t l = 0; l < pools.size(); ++l) {
    for (const TensorView* view : {&pools[l].state, &pools[l].line}) {
      if (!view->present() || view->dtype != DType::f32) continue;
      support::for_each(*view, [&](const support::Index& i) {
        if (!which(config_.layers[l].group, static_cast<std::int32_t>(i[0])) || i[0] <= config_.null_block_id) return;
        std::memcpy(support::element(*view, i), &value, sizeof value);
      });
    }
  }
}

::testing::AssertionResult Pages::gaps_intact() const {
  for (std::size_t l = 0; l < pages_.size(); ++l) {
    for (std::size_t i = 0; i < pages_[l].memory.size(); ++i) {
      if (pages_[l].tensor[i] || pages_[l].memory[i] == pattern(i)) continue;
      return ::testing::AssertionFailure() << "layer " << l << ": byte " << static_cast<std::int64_t>(i) % pages_[l].bytes
                                           << " of page " << static_cast<std::int64_t>(i) / pages_[l].bytes << " was written";
    }
  }
  return ::testing::AssertionSuccess();
}

Bytes Pages::block(std::int32_t group, std::int32_t block) const {
  Bytes bytes;
  for (std::size_t l = 0; l < pages_.size(); ++l) {
    if (config_.layers[l].group != group) continue;
    const auto first = pages_[l].memory.begin() + block * pages_[l].bytes;
    bytes.insert(bytes.end(), first, first + pages_[l].bytes);
  }
  return bytes;
}

}  // namespace session_tests
