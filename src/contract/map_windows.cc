// map_windows: a host helper of every backend's caller. It reads plain arrays and runs nowhere else.
#include <string>

#include "contract/check.h"
#include "recoverssm/plan.hpp"

namespace recoverssm {
namespace {

void throw_error(Check& check) {
  if (!check.ok()) throw Error(check.take());
}

}  // namespace

WindowMap map_windows(std::span<const std::int32_t> draft_counts, std::span<const std::uint8_t> prefilling,
                      std::span<const std::int32_t> lengths) {
  Check check("map_windows");
  const std::string entries = text(draft_counts.size(), " entries, as draft_counts has");
  if (prefilling.size() != draft_counts.size()) check.invalid("prefilling", text(prefilling.size(), " entries"), entries);
  if (lengths.size() != draft_counts.size()) check.invalid("lengths", text(lengths.size(), " entries"), entries);
  throw_error(check);

  WindowMap map{.rows = {}, .identity = true};
  for (std::size_t r = 0; r < draft_counts.size(); ++r) {
    const auto index = static_cast<std::int64_t>(r);
    if (draft_counts[r] < -1) check.out_of_range(Name("draft_counts").at(index), text(draft_counts[r]), "-1 (none) or a count");
    if (lengths[r] < 0) check.out_of_range(Name("lengths").at(index), text(lengths[r]), "at least 0");
    throw_error(check);
    const bool has_drafts = draft_counts[r] >= 0;
    if (!has_drafts && (prefilling[r] != 0 || lengths[r] == 0)) continue;
    map.identity = map.identity && r == map.rows.size();
    map.rows.push_back(static_cast<std::int32_t>(r));
  }
  return map;
}

}  // namespace recoverssm
