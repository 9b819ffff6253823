#include "session/driver.h"

#include <algorithm>
#include <sstream>

namespace session_tests {

using recoverssm::DeltaInputs;
using recoverssm::RequestInfo;
using recoverssm::StepRow;

Driver::Driver(const Shape& shape) : model(shape), session(model.config()) {}
Driver::Driver(const Shape& shape, std::span<const recoverssm::LayerPool> pools) : model(shape), session(model.config(), pools) {}

std::int64_t Driver::History::tokens() const {
  std::int64_t sum = 0;
  for (const auto& call : calls) sum += static_cast<std::int64_t>(call.size());
  return sum;
}

Driver::History Driver::History::until(std::int64_t tokens) const {
  History part{.text = text, .calls = {}};
  for (const auto& call : calls) {
    const auto take = std::min(static_cast<std::int64_t>(call.size()), tokens);
    if (take > 0) part.calls.emplace_back(call.begin(), call.begin() + take);
    tokens -= take;
  }
  return part;
}

const Known& Driver::known(const History& history) {
  const Known* at = &model.start();
  for (const auto& call : history.calls) at = &model.after(*at, call);
  return *at;
}

RequestId Driver::admit(std::uint64_t text) {
  const RequestId id = session.admit();
  histories_[id] = {.text = text, .calls = {}};
  return id;
}

RequestId Driver::admit(std::uint64_t text, PrefixId prefix) {
  const RequestId id = session.admit(prefix, context);
  histories_[id] = prefixes_.at(prefix);
  histories_[id].text = text;
  return id;
}

RequestId Driver::fork(RequestId request, std::uint64_t text) {
  const RequestId id = session.fork(request, context);
  histories_[request].waits = false;
  histories_[id] = histories_.at(request);
  histories_[id].text = text;
  return id;
}

PrefixId Driver::hold(RequestId request, std::int64_t tokens) {
  const PrefixId id = session.hold(request, tokens, context);
  if (tokens == histories_[request].tokens()) histories_[request].waits = session.info(request).waiting > 0;
  prefixes_[id] = histories_.at(request).until(tokens);
  return id;
}

PrefixId Driver::finish_and_hold(RequestId request) {
  const PrefixId id = session.finish_and_hold(request, context);
  prefixes_[id] = histories_.at(request).until(tokens(request));
  histories_.erase(request);
  return id;
}

void Driver::finish(RequestId request) {
  session.finish(request);
  histories_.erase(request);
}

void Driver::preempt(RequestId request) {
  session.preempt(request);
  histories_[request] = {.text = histories_.at(request).text, .calls = {}};
}

std::vector<StepRow> Driver::step_rows(const std::vector<Row>& rows) const {
  std::vector<StepRow> result;
  for (const Row& row : rows) {
    const auto at = histories_.find(row.request);
    result.push_back({row.request, row.kind, row.tokens, at == histories_.end() ? -1 : at->second.tokens()});
  }
  return result;
}

std::vector<RequestId> Driver::requests() const {
  std::vector<RequestId> requests;
  for (const auto& [request, history] : histories_) requests.push_back(request);
  return requests;
}

Step Driver::open(const std::vector<Row>& rows) {
  return open_with(rows, [](auto&) {});
}

Step Driver::open_with(const std::vector<Row>& rows, const std::function<void(std::vector<StepRow>&)>& afterwards) {
  std::vector<StepRow> given = step_rows(rows);
  const StepId id = session.open_step(given, context);
  afterwards(given);
  Step step{.id = id, .rows = rows, .keys = {}, .start = {}, .io = {}};
  for (const Row& row : rows) {
    step.start.push_back(static_cast<std::int32_t>(step.keys.size()));
    const bool of_request = row.request != 0;
    const std::int64_t first = of_request ? tokens(row.request) : 0;
    for (std::int32_t t = 0; t < row.tokens; ++t) {
      const bool right = row.kind != RowKind::window || t < row.kept;
      step.keys.push_back(of_request ? token(histories_.at(row.request).text, first + t, right ? 0 : step.id + 1)
                                     : mixed(step.id, 77));
    }
    if (of_request) histories_.at(row.request).open = step.id;
  }
  step.io.resize(static_cast<std::size_t>(model.layers()));
  return step;
}

void Driver::forward(Step& step, std::int32_t layer) {
  LayerIo io = model.io(layer, step.keys);
  if (model.is_conv(layer)) {
    session.forward(step.id, layer, io.conv(), context);
  } else {
    session.forward(step.id, layer, io.delta(), context);
  }
  if (support::on_device()) {
    EXPECT_TRUE(support::wait_for_device().ok());
  }
  step.io[static_cast<std::size_t>(layer)] = io;
}

void Driver::forward(Step& step) {
  for (std::int32_t l = 0; l < model.layers(); ++l) forward(step, l);
}

std::vector<Accepted> Driver::counts(const Step& step) {
  std::vector<Accepted> counts;
  for (const Row& row : step.rows) {
    if (row.request != 0 && row.kind == RowKind::window && row.tokens > 0) counts.push_back({row.request, row.kept});
  }
  return counts;
}

void Driver::commit(Step& step) { commit(step, counts(step)); }

void Driver::commit(Step& step, std::span<const Accepted> accepted) {
  session.commit(step.id, accepted, context);
  committed(step);
}

void Driver::committed(Step& step) {
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const Row& row = step.rows[i];
    if (row.request == 0) {
      expect_padding(step, i);
      continue;
    }
    const auto at = histories_.find(row.request);
    if (at == histories_.end() || at->second.open != step.id) continue;  // freed meanwhile
    History& history = at->second;
    history.open = 0;
    if (row.tokens == 0) continue;
    const std::span kept =
        std::span(step.keys).subspan(static_cast<std::size_t>(step.start[i]), static_cast<std::size_t>(row.kept));
    expect_outputs(step, i, known(history), kept);
    if (row.kind == RowKind::window && row.kept == 0 && model.shape().rolled()) {
      EXPECT_EQ(session.info(row.request).phase, Phase::dead);
      history = {.text = history.text, .calls = {}};
      continue;
    }
    if (row.kept > 0) history.calls.emplace_back(kept.begin(), kept.end());
    history.waits = row.kind == RowKind::window && model.shape().lazy;
    check(row.request);
  }
}

void Driver::abandon(Step& step) {
  session.abandon(step.id);
  for (const Row& row : step.rows) {
    const auto at = histories_.find(row.request);
    if (at != histories_.end() && at->second.open == step.id) at->second.open = 0;
  }
}

void Driver::run(const std::vector<Row>& rows) {
  Step step = open(rows);
  forward(step);
  commit(step);
}

void Driver::expect_outputs(const Step& step, std::size_t row, const Known& before, std::span<const Key> kept) {
  std::vector<Bytes> want;
  model.after(before, kept, &want);
  for (std::size_t l = 0; l < step.io.size(); ++l) {
    const Bytes got = step.io[l].output(step.start[row], static_cast<std::int64_t>(kept.size()));
    EXPECT_EQ(got == want[l], true) << model.shape().text() << ": output of layer " << l << ", request " << step.rows[row].request
                                    << " after " << before.tokens << " tokens, row " << row << " of " << step.rows[row].tokens
                                    << " tokens";
  }
}

void Driver::expect_padding(const Step& step, std::size_t row) {
  for (std::size_t l = 0; l < step.io.size(); ++l) {
    const Bytes got = step.io[l].output(step.start[row], step.rows[row].tokens);
    EXPECT_TRUE(std::ranges::all_of(got, [](std::byte b) { return b == std::byte{0}; }))
        << "output of padding row " << row << ", layer " << l;
  }
}

void Driver::check(RequestId request) {
  const History& history = histories_.at(request);
  const RequestInfo info = session.info(request);
  const std::string where =
      model.shape().text() + ": request " + std::to_string(request) + " after " + std::to_string(history.tokens()) + " tokens";
  EXPECT_EQ(info.tokens, history.tokens()) << where;
  if (history.calls.empty() || history.waits) return;
  ASSERT_EQ(info.phase, Phase::live) << where;
  EXPECT_EQ(info.waiting, 0) << where;
  const Known& want = known(history);
  for (std::int32_t l = 0; l < model.layers(); ++l) {
    const std::int32_t group = model.config().layers[static_cast<std::size_t>(l)].group;
    const Bytes got = model.memory(l, session.pool(l), info.blocks[static_cast<std::size_t>(group)]);
    EXPECT_TRUE(got == want.memory[static_cast<std::size_t>(l)]) << where << ", memory of layer " << l;
  }
}

Bytes Driver::memory(RequestId request) const {
  const RequestInfo info = session.info(request);
  Bytes all;
  for (std::int32_t l = 0; l < model.layers(); ++l) {
    const std::int32_t group = model.config().layers[static_cast<std::size_t>(l)].group;
    const Bytes bytes = model.memory(l, session.pool(l), info.blocks[static_cast<std::size_t>(group)]);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

void Driver::check_all() {
  for (const auto& [request, history] : histories_) {
    if (history.open == 0) check(request);
  }
}

Bytes Driver::check_export(RequestId request, std::int64_t tokens) {
  History& history = histories_.at(request);
  if (tokens < 0) tokens = history.tokens();
  const Bytes bytes = session.export_checkpoint(request, tokens, 9, context);
  if (tokens == history.tokens()) history.waits = session.info(request).waiting > 0;
  const recoverssm::CheckpointInfo info = recoverssm::inspect_checkpoint(bytes);
  EXPECT_EQ(info.tokens, tokens);
  EXPECT_EQ(info.owner, request);
  // The payload stands before the checksum, layer by layer.
  const Known& want = known(history.until(tokens));
  Bytes payload;
  for (const Bytes& memory : want.memory) payload.insert(payload.end(), memory.begin(), memory.end());
  const Bytes got(bytes.end() - 8 - static_cast<std::ptrdiff_t>(payload.size()), bytes.end() - 8);
  EXPECT_TRUE(got == payload) << model.shape().text() << ": checkpoint of request " << request << " after " << tokens << " tokens";
  return bytes;
}

RequestId started(Driver& driver, std::uint64_t text, std::int32_t tokens) {
  const RequestId id = driver.admit(text);
  driver.run({prefill(id, tokens)});
  return id;
}

void for_all_shapes(std::int32_t block_size, const std::function<void(const Shape&)>& body) {
  for (const Shape& shape : all_shapes(block_size)) {
    SCOPED_TRACE(shape.text());
    body(shape);
  }
}

::testing::AssertionResult refuses(ErrorKind kind, const std::string& begin, const std::vector<std::string>& parts,
                                   const std::function<void()>& call) {
  try {
    call();
  } catch (const recoverssm::Error& error) {
    const std::string message = error.what();
    if (error.kind() != kind)
      return ::testing::AssertionFailure() << name_of(error.kind()) << " in place of " << name_of(kind) << ": " << message;
    if (!message.starts_with(begin))
      return ::testing::AssertionFailure() << "\"" << message << "\" does not begin with \"" << begin << "\"";
    for (const std::string& part : parts) {
      if (message.find(part) == std::string::npos)
        return ::testing::AssertionFailure() << "\"" << message << "\" lacks \"" << part << "\"";
    }
    if (message.find(", expected ") == std::string::npos)
      return ::testing::AssertionFailure() << "\"" << message << "\" says no expectation";
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "not refused: " << begin;
}

Unchanged::Unchanged(const recoverssm::Session& session, std::vector<RequestId> requests)
    : session_(session), requests_(std::move(requests)), description_(describe()), bytes_(pool_bytes()) {}

std::string Unchanged::describe() const {
  std::ostringstream out;
  for (const RequestId id : requests_) {
    const RequestInfo info = session_.info(id);
    out << "request " << id << " phase " << static_cast<int>(info.phase) << " tokens " << info.tokens << " waiting " << info.waiting
        << " step " << info.open_step << " blocks";
    for (const std::int32_t block : info.blocks) out << ' ' << block;
    out << " exportable";
    for (const std::int64_t tokens : session_.exportable(id)) out << ' ' << tokens;
    out << '\n';
  }
  out << session_.requests() << " requests " << session_.open_steps() << " steps " << session_.prefixes() << " prefixes\n";
  for (std::int32_t g = 0; g < static_cast<std::int32_t>(session_.config().groups.size()); ++g) {
    out << "group " << g << " free " << session_.free_blocks(g) << '\n';
    for (std::int32_t b = 0; b < session_.config().groups[static_cast<std::size_t>(g)].blocks; ++b) {
      const recoverssm::BlockTag tag = session_.block_tag(g, b);
      out << "block " << b << ' ' << tag.owner << ' ' << tag.tokens << ' ' << tag.step << ' ' << tag.references << ' ' << tag.layout
          << '\n';
    }
  }
  const recoverssm::SessionCounters& c = session_.counters();
  for (const std::int64_t count :
       {c.steps_opened, c.steps_committed, c.steps_abandoned, c.prefill_rows, c.decode_rows, c.window_rows, c.prefill_tokens,
        c.decode_tokens, c.verified_tokens, c.kept_tokens, c.library_calls, c.grouped_calls, c.per_group_calls, c.folded_rows,
        c.moved_rows, c.dead_rows, c.traffic.total(), c.traffic.rows, c.traffic.tokens}) {
    out << count << ' ';
  }
  return out.str();
}

std::vector<Bytes> Unchanged::pool_bytes() const {
  std::vector<Bytes> all;
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(session_.config().layers.size()); ++l) {
    const PoolOnHost pool(session_.pool(l));
    for (const recoverssm::TensorView& view :
         {pool.line.view, pool.state.view, pool.pending.view, pool.packed.view, pool.corrections.view, pool.key_gate.view}) {
      all.emplace_back();
      if (!view.present()) continue;
      support::for_each(view, [&](const support::Index& i) {
        const std::byte* element = support::element(view, i);
        all.back().insert(all.back().end(), element, element + recoverssm::size_of(view.dtype));
      });
    }
  }
  return all;
}

::testing::AssertionResult Unchanged::check() const {
  const std::string now = describe();
  if (now != description_) return ::testing::AssertionFailure() << "changed from\n" << description_ << "\nto\n" << now;
  if (pool_bytes() != bytes_) return ::testing::AssertionFailure() << "bytes of the pools have changed";
  return ::testing::AssertionSuccess();
}

}  // namespace session_tests
