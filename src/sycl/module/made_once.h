// What takes long to make and is made once a key: kernels. Nothing is locked while one is made, so that who asks for another one does not
// wait; who asks for the same one does, and gets what making it threw. Only what would fail again is kept, and thrown to all who ask later.
#pragma once

#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>

namespace recoverssm::sycl_backend {

template <class Key, class Value>
class MadeOnce {
 public:
  // make() gives a std::unique_ptr<Value>, and is called by the first to ask. The value stays where it is. fails_again(std::exception_ptr)
  // says whether another try would throw the same.
  template <class Make, class FailsAgain>
  Value& get(const Key& key, Make&& make, FailsAgain&& fails_again) {
    std::promise<std::unique_ptr<Value>> mine;
    const auto [value, first] = find_or_add(key, mine);
    if (first) {
      try {
        mine.set_value(make());
      } catch (...) {
        if (!fails_again(std::current_exception())) forget(key);  // before anyone hears of it: the next to ask tries again
        mine.set_exception(std::current_exception());
      }
    }
    return *value.get();
  }

 private:
  using Future = std::shared_future<std::unique_ptr<Value>>;
  struct Found {
    Future value;
    bool first;
  };

  Found find_or_add(const Key& key, std::promise<std::unique_ptr<Value>>& mine) {
    const std::scoped_lock held(lock_);
    const auto at = all_.find(key);
    if (at != all_.end()) return {at->second, false};
    return {all_.emplace(key, mine.get_future().share()).first->second, true};
  }

  void forget(const Key& key) {
    const std::scoped_lock held(lock_);
    all_.erase(key);
  }

  std::mutex lock_;
  std::map<Key, Future> all_;
};

}  // namespace recoverssm::sycl_backend
