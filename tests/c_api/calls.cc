#include "calls.h"

#include <limits>
#include <random>

#include "support/convert.h"
#include "support/tensor.h"

namespace c_api_tests {

using namespace recoverssm;

std::vector<TensorView> tensors_of(const std::vector<Leaf>& leaves) {
  std::vector<TensorView> tensors;
  for (const Leaf& leaf : leaves) {
    if (TensorView* const* view = std::get_if<TensorView*>(&leaf.at); view != nullptr && (*view)->present())
      tensors.push_back(**view);
  }
  return tensors;
}

void fill_floats(const std::vector<Leaf>& leaves) {
  std::mt19937 random(7);
  for (const TensorView& view : tensors_of(leaves)) {
    if (view.dtype != DType::f32 && view.dtype != DType::bf16) continue;
    support::for_each(view, [&](const support::Index& index) {
      support::encode(view.dtype, static_cast<double>(random() % 1000) / 500.0 - 1.0, support::element(view, index));
    });
  }
}

namespace {

class Faults {
 public:
  explicit Faults(const std::string& name) : name_(name) {}

  void operator()(TensorView* view) {
    if (!view->present()) return add("given", [=] { *view = TensorView(nullptr, DType::i32, {0}); });
    const std::size_t last = static_cast<std::size_t>(view->dims) - 1;
    add("left out", [=] { *view = {}; });
    add("of f64", [=] { view->dtype = DType::f64; });
    add("of no dtype", [=] { view->dtype = static_cast<DType>(77); });
    add("with a dimension less", [=] { --view->dims; });
    add("with 7 dimensions", [=] { view->dims = 7; });
    beyond("with one more in front", [=] { ++view->shape[0]; });
    add("with one less in front", [=] { --view->shape[0]; });
    add("with a negative size", [=] { view->shape[last] = -1; });
    beyond("of a huge size", [=] { view->shape[0] = std::int64_t{1} << 62; });
    beyond("with stride 2", [=] { view->stride[last] = 2; });
    add("without data", [=] { view->data = nullptr; });
    beyond("one byte on", [=] { view->data = static_cast<std::byte*>(view->data) + 1; });
    if (view->dtype != DType::i32) return;
    for (const std::int32_t wrong : {-1000, 1000000, 2, 1}) {
      add("holding " + std::to_string(wrong),
          [=] { *reinterpret_cast<std::int32_t*>(support::element(*view, {view->shape[0] - 1})) = wrong; });
    }
  }
  void operator()(std::int32_t* value) {
    for (const std::int32_t wrong : {-1, 0, 300, INT32_MAX, INT32_MIN}) add(std::to_string(wrong), [=] { *value = wrong; });
  }
  void operator()(std::uint8_t* value) {
    for (const int wrong : {0, 77, 255}) add(std::to_string(wrong), [=] { *value = static_cast<std::uint8_t>(wrong); });
  }
  void operator()(bool* value) {
    add("turned", [=] { *value = !*value; });
  }
  void operator()(float* value) {
    add("NaN", [=] { *value = std::numeric_limits<float>::quiet_NaN(); });
    add("-1", [=] { *value = -1; });
  }
  template <class T>
  void operator()(std::optional<T>* value) {
    add("left out", [=] { value->reset(); });
    add("-1", [=] { *value = T{-1}; });
    add("1", [=] { *value = T{1}; });
  }

  std::vector<Fault> all;

 private:
  void add(const std::string& what, std::function<void()> apply) { all.push_back({name_ + " " + what, std::move(apply)}); }

  void beyond(const std::string& what, std::function<void()> apply) { all.push_back({name_ + " " + what, std::move(apply), true}); }

  std::string name_;
};

}  // namespace

std::vector<Fault> faults_of(const std::vector<Leaf>& leaves) {
  std::vector<Fault> faults;
  for (const Leaf& leaf : leaves) {
    Faults more(leaf.name);
    std::visit(more, leaf.at);
    faults.insert(faults.end(), more.all.begin(), more.all.end());
  }
  return faults;
}

}  // namespace c_api_tests
