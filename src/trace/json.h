// JSON from files nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "trace/malformed.h"

namespace recoverssm::trace {

constexpr int kMaxJsonDepth = 64;
constexpr std::int64_t kMaxJsonValues = 8'000'000;  // names and values: bounds the memory that a text of given length can ask for

// Throws Malformed, beginning with `what`, for a text that is not JSON, is nested deeper than kMaxJsonDepth, holds more than
// kMaxJsonValues, or gives one object the same name twice.
nlohmann::json parse_json(std::string_view text, std::string_view what);

// Throws Malformed unless `value` is an object whose names are all in `required` or `optional`, the required ones all there.
// `place` begins the message.
void check_names(const nlohmann::json& value, const std::string& place, std::initializer_list<std::string_view> required,
                 std::initializer_list<std::string_view> optional = {});

// The value as an int64. Throws Malformed if it is no integer, or is outside [lowest, highest].
std::int64_t integer_at(const nlohmann::json& value, const std::string& place, std::int64_t lowest = INT64_MIN,
                        std::int64_t highest = INT64_MAX);

// Throws Malformed if the value is no string.
const std::string& string_at(const nlohmann::json& value, const std::string& place);

// Throws Malformed if the value is no array.
const nlohmann::json::array_t& array_at(const nlohmann::json& value, const std::string& place);

}  // namespace recoverssm::trace
