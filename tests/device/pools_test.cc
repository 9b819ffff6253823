// Pools of more than 2^32 elements: the same calls as on a small pool, on blocks near its start, around element 2^31, around element 2^32
// and at its end. Those blocks then hold what the CPU's small pool holds, and no other byte of the pool has changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "device/programs.h"

namespace device_test {
namespace {

// A scene whose pages lie far apart on the device: block b of the scene is block ids[b] of the pool.
class LargePool {
 public:
  LargePool(Scene& scene, std::int64_t element_size) : scene_(scene), element_size_(element_size) {
    // The fake's pool is just large enough for the blocks to be apart.
    const std::int64_t page_elements = scene.page_bytes / element_size;
    past_31_ = gpu::real() ? (std::int64_t{1} << 31) / page_elements : 2 * scene.blocks;
    past_32_ = gpu::real() ? (std::int64_t{1} << 32) / page_elements : 4 * scene.blocks;
    blocks_ = past_32_ + 2 * scene.blocks;
    const std::int64_t zone = scene.blocks / 4 + 1;
    const std::int64_t starts[] = {1, past_31_ - zone / 2, past_32_ - zone / 2, blocks_ - zone};
    ids_.push_back(0);
    for (int b = 1; b < scene.blocks; ++b) ids_.push_back(static_cast<std::int32_t>(starts[b % 4] + b / 4));
    ids_.back() = static_cast<std::int32_t>(blocks_ - 1);
    if (std::set<std::int32_t>(ids_.begin(), ids_.end()).size() != ids_.size()) throw std::runtime_error("blocks coincide");
  }

  std::size_t bytes() const { return static_cast<std::size_t>(blocks_ * scene_.page_bytes + scene_.pages_at); }
  std::int64_t blocks() const { return blocks_; }
  std::int64_t elements() const { return blocks_ * scene_.page_bytes / element_size_; }
  std::int64_t far_blocks(std::int64_t from) const {
    return std::count_if(ids_.begin(), ids_.end(), [&](std::int32_t id) { return id >= from; });
  }
  std::int64_t past_31() const { return past_31_; }
  std::int64_t past_32() const { return past_32_; }

  void make() {
    plain_ = std::make_unique<gpu::Memory>(static_cast<std::size_t>(scene_.pages_at));
    pages_ = std::make_unique<gpu::Memory>(static_cast<std::size_t>(blocks_ * scene_.page_bytes));
    gpu::fill(pages_->data(), 0xff, pages_->bytes());
    upload_plain();
    for (int b = 0; b < scene_.blocks; ++b) gpu::upload(page(b), host_page(b), static_cast<std::size_t>(scene_.page_bytes));
  }
  void upload_plain() {
    const std::vector<std::byte> mapped = host_plain();
    gpu::upload(plain_->data(), mapped.data(), mapped.size());
  }
  Side side() const { return {plain_->data(), pages_->data(), blocks_, scene_.page_bytes, scene_.shape.rows}; }

  // The scene's blocks and all plain tensors, as the scene would have them.
  ::testing::AssertionResult same() const {
    std::vector<std::byte> got(scene_.bytes.size()), want = scene_.bytes;
    const std::vector<std::byte> mapped = host_plain();
    std::copy(mapped.begin(), mapped.end(), want.begin());
    gpu::download(got.data(), plain_->data(), mapped.size());
    for (int b = 0; b < scene_.blocks; ++b) {
      gpu::download(got.data() + scene_.pages_at + b * scene_.page_bytes, page(b), static_cast<std::size_t>(scene_.page_bytes));
    }
    return same_scene(scene_, got.data(), want.data());
  }

  // Bytes of the rest of the pool that are not as they were made. The scene's blocks are gone after this.
  std::uint64_t changed_elsewhere() const {
    for (int b = 0; b < scene_.blocks; ++b) gpu::fill(page(b), 0xff, static_cast<std::size_t>(scene_.page_bytes));
    return 4 * gpu::count_other_words(pages_->data(), pages_->bytes(), 0xffffffffU);
  }

 private:
  std::byte* page(int b) const { return pages_->data() + ids_[static_cast<std::size_t>(b)] * scene_.page_bytes; }
  const std::byte* host_page(int b) const { return scene_.bytes.data() + scene_.pages_at + b * scene_.page_bytes; }

  // The plain part with the pool's ids.
  std::vector<std::byte> host_plain() const {
    std::vector<std::byte> plain(scene_.bytes.begin(), scene_.bytes.begin() + scene_.pages_at);
    for (const Piece& piece : scene_.all) {
      if (!piece.ids) continue;
      auto* const values = reinterpret_cast<std::int32_t*>(plain.data() + piece.at);
      for (std::int64_t i = 0; i < piece.view.elements(); ++i) {
        if (values[i] > 0 && values[i] < scene_.blocks) values[i] = ids_[static_cast<std::size_t>(values[i])];
      }
    }
    return plain;
  }

  Scene& scene_;
  std::int64_t element_size_, past_31_ = 0, past_32_ = 0, blocks_ = 0;
  std::vector<std::int32_t> ids_;
  std::unique_ptr<gpu::Memory> plain_, pages_;
};

const int kSteps = gpu::real() ? 3 : 2;

TEST(Pools, PastTwoToThe32Elements) {
  GPU_OR_SKIP();
  bool large = true;
  for (const Named& named : all_programs()) {
    for (const DType state : {DType::f32, DType::bf16}) {
      if (!gpu::real() && state != DType::f32) continue;
      SceneShape shape = named.shape;
      for (LayerShape& layer : shape.layers) layer.state = state;
      Scene scene(shape);
      LargePool pool(scene, size_of(state));
      SCOPED_TRACE(named.name + ", state " + name_of(state) + ", " + std::to_string(pool.blocks()) + " blocks");
      if (pool.bytes() + (std::size_t{1} << 30) > gpu::free_bytes()) {
        large = false;
        saw("large pool: left out, " + millions(static_cast<std::int64_t>(pool.bytes())) + " wanted, " +
            millions(static_cast<std::int64_t>(gpu::free_bytes())) + " free");
        continue;
      }
      pool.make();
      const Program program = named.make(scene);
      const gpu::Stream stream(gpu::StreamKind::non_blocking);
      Runner device = Runner::device(stream, [&](Runner& run) { program(pool.side(), run); });
      Runner cpu = Runner::cpu();
      for (int step = 0; step < kSteps; ++step) {
        program(scene.side(), cpu);
        program(pool.side(), device);
        stream.wait();
        ASSERT_TRUE(pool.same()) << "step " << step;
        ASSERT_TRUE(no_finding(device)) << "step " << step;
        scene.draw_inputs();
        scene.draw_rows({scene.shape.rows - step, step});
        pool.upload_plain();
      }
      const std::uint64_t changed = pool.changed_elsewhere();
      EXPECT_EQ(changed, 0U) << "bytes of other blocks";
      saw("large pool: " + named.name + "; state " + name_of(state) + ", " + std::to_string(pool.elements()) + " elements in " +
          std::to_string(pool.blocks()) + " blocks, " + millions(static_cast<std::int64_t>(pool.bytes())) + "; " +
          std::to_string(scene.blocks) + " blocks in use, " + std::to_string(pool.far_blocks(pool.past_31())) +
          " of them from element 2^31 on, " + std::to_string(pool.far_blocks(pool.past_32())) + " from 2^32; " +
          std::to_string(kSteps) + " steps: 0 bytes differ from the CPU's small pool, " + std::to_string(changed) +
          " bytes of other blocks changed");
    }
  }
  EXPECT_TRUE(large) << "a pool did not fit into the device's memory";
}

}  // namespace
}  // namespace device_test
