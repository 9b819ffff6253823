// What the tests of the ABI share: texts of errors, structs of other versions, and the names that src/c_api/fields.h pairs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "c_api/fields.h"

namespace c_api_tests {

inline std::string text_of(int status) { return status == RECOVERSSM_OK ? "ok" : recoverssm_last_error(); }
inline bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A copy of a struct in a buffer of any size, filled with `rest` behind it.
template <class C>
struct Resized {
  std::vector<std::uint64_t> memory;
  C* at;
  Resized(const C& from, std::size_t size, unsigned char rest) : memory(size / sizeof(std::uint64_t) + 2) {
    std::memset(static_cast<void*>(memory.data()), rest, memory.size() * sizeof(std::uint64_t));
    std::memcpy(static_cast<void*>(memory.data()), &from, std::min(size, sizeof from));
    at = reinterpret_cast<C*>(memory.data());
    at->struct_size = size;
  }
};

// Every field of every C++ struct has its C counterpart: naming them here does not compile when one is added or removed, and the
// names are those that src/c_api/fields.h pairs.
struct Names {
  std::set<std::string> all;
  template <class C, class Cpp>
  void field(const char* name, C&, Cpp&) {
    all.insert(name);
  }
  template <class C, class Cpp>
  void optional(const char* name, std::int32_t&, C&, std::optional<Cpp>&) {
    all.insert(name);
  }
  template <class C, class Cpp>
  void nested(const char* name, const C*&, Cpp&) {
    all.insert(name);
  }
  template <class C, class Cpp>
  void maybe(const char* name, const C*&, Cpp&) {
    all.insert(name);
  }
  template <class C, class Items>
  void list(const char* name, const C*&, std::size_t&, Items&) {
    all.insert(name);
  }
  template <class C, class Cpp>
  void array(const char* name, C&, Cpp&) {
    all.insert(name);
  }
  template <class C, class Cpp>
  void text(const char* name, C&, Cpp&) {
    all.insert(name);
  }
  template <class C>
  void reserved(C&) {}
};

inline std::set<std::string> words_of(const char* list) {
  std::set<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream >> std::ws, word, ',');) words.insert(word);
  return words;
}

// `elsewhere`: fields that C hands over by arguments of their own.
template <class C, class Cpp>
void expect_names(const char* list, const char* elsewhere = "") {
  Names names;
  C c{};
  Cpp cpp{};
  recoverssm::c_api::fields(names, c, cpp);
  std::set<std::string> expected = words_of(list);
  for (const std::string& word : words_of(elsewhere)) EXPECT_EQ(expected.erase(word), 1U) << word;
  EXPECT_EQ(names.all, expected);
}

#define EXPECT_FIELDS(C, Cpp, ...) EXPECT_FIELDS_BUT(C, Cpp, "", __VA_ARGS__)
#define EXPECT_FIELDS_BUT(C, Cpp, elsewhere, ...)                                                   \
  {                                                                                                 \
    const auto bind = [](const Cpp& value) { [[maybe_unused]] const auto& [__VA_ARGS__] = value; }; \
    (void)bind;                                                                                     \
    SCOPED_TRACE(#Cpp);                                                                             \
    expect_names<C, Cpp>(#__VA_ARGS__, elsewhere);                                                  \
  }

}  // namespace c_api_tests
