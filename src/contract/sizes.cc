#include "recoverssm/sizes.hpp"

#include "contract/check.h"
#include "contract/conv_inputs.h"
#include "contract/rule_inputs.h"
#include "contract/rules.h"

namespace recoverssm {
namespace {

void check_geometry(Check& check, const Geometry& g) {
  check.at_least("S", g.S, 1);
  check_gate(check, "", g.gate);
  for (const auto& [name, value] : {std::pair{"H", g.H}, {"HV", g.HV}, {"K", g.K}, {"V", g.V}, {"channels", g.channels}}) {
    check.at_least(name, value, 0);
  }
  if (check.ok() && !kFloats.has(g.activation)) check.invalid("activation", name_of(g.activation), kFloats.text());
  if (check.ok() && !kFloats.has(g.state)) check.invalid("state", name_of(g.state), kFloats.text());
  const bool rule = g.H != 0 || g.HV != 0 || g.K != 0 || g.V != 0;
  if (rule) {
    check_head_counts(check, "HV", g.HV, g.H);
    check.at_least("K", g.K, 1);
    check.at_least("V", g.V, 1);
  }
  if (g.W != 0) check.at_least("W", g.W, kMinConvTaps);
  if (check.ok() && g.W != 0 && !rule && g.channels == 0) check.invalid("channels", "0", "the channels of a layer without heads");
}

}  // namespace

Sizes sizes(const Geometry& g) {
  Check check("sizes");
  check_geometry(check, g);
  if (!check.ok()) throw Error(check.take());  // before any arithmetic: numbers of no layer may overflow it
  const std::int64_t heads_keys = times(2, times(g.H, g.K)), heads_values = times(g.HV, g.V);
  const std::int64_t C = g.channels != 0 ? g.channels : plus(heads_keys, heads_values);
  const std::int64_t activation = size_of(g.activation), position = times(C, activation);
  const auto line = [&](LineKind kind) { return g.W == 0 ? 0 : times(line_columns(kind, g.W - 1, g.S), position); };

  Sizes s;
  s.state = times(times(heads_values, g.K), size_of(g.state));
  s.line_rolled = line(LineKind::rolled);
  s.line_anchored = line(LineKind::anchored);
  // gdn: correction, key and decay in fp32; kda: corrections in fp32, raw key and raw gate input in T.
  const std::int64_t record =
      g.gate == Gate::gdn ? 4 * (std::int64_t{g.V} + g.K + 1) : 4 * std::int64_t{g.V} + activation * 2 * g.K;
  s.records = g.HV == 0 ? 0 : times(times(g.HV, g.S), record);
  s.page_rolled = plus(plus(s.state, s.records), s.line_rolled);
  s.page_anchored = plus(plus(s.state, s.records), s.line_anchored);
  s.snapshots = plus(times(s.state, g.S), s.line_rolled);
  if (s.page_anchored == INT64_MAX || s.snapshots == INT64_MAX) {
    check.invalid("geometry", "more bytes than fit in 64 bits", "a smaller one");
    throw Error(check.take());
  }
  return s;
}

}  // namespace recoverssm
