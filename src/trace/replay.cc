#include "trace/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <utility>

#include "trace/binding.h"
#include "trace/compare.h"
#include "trace/device.h"
#include "trace/guarded.h"

namespace recoverssm::trace {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

using Bytes = std::unique_ptr<std::byte[]>;

void collect_buffers(const Argument& argument, std::set<std::int32_t>& buffers) {
  if (const auto* view = std::get_if<View>(&argument.value)) buffers.insert(view->buffer);
  if (const auto* list = std::get_if<std::vector<Argument>>(&argument.value)) {
    for (const Argument& item : *list) collect_buffers(item, buffers);
  }
  if (const auto* members = std::get_if<std::vector<Member>>(&argument.value)) {
    for (const Member& member : *members) collect_buffers(member.argument, buffers);
  }
}

// Which whole buffers must be kept at which moments, for expectations that look back.
std::set<std::pair<int, std::int32_t>> moments_needed(const Document& document) {
  std::set<std::pair<int, std::int32_t>> needed;
  const auto look = [&](const std::vector<Expectation>& expectations) {
    for (const Expectation& e : expectations) {
      if (e.kind == Expectation::Kind::unchanged_since) needed.emplace(e.moment, e.view.buffer);
    }
  };
  for (const Call& call : document.calls) look(call.expectations);
  look(document.finally);
  return needed;
}

// One trace while it runs. Beside the live buffers stands a copy of each, from before the call that runs: what an error must leave
// alone, and what a repeat starts from.
class Session {
 public:
  Session(const Document& document, const ReplayOptions& options, Context& context, ReplayResult& result)
      : document_(document), options_(options), context_(context), result_(result) {
    for (const Backend backend : {Backend::cuda, Backend::sycl}) {
      if (options.backend == name_of(backend)) device_.emplace(backend);
    }
  }

  // Throws Malformed if the trace asks for more memory than allowed.
  void run() {
    allocate();
    keep_moment(kStart);
    for (std::size_t i = 0; i < document_.calls.size(); ++i) {
      run_call(document_.calls[i], static_cast<int>(i));
      if (options_.progress) {
        options_.progress(static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(document_.calls.size()));
      }
    }
    check_expectations("finally", document_.finally);
    check_silent_flag();
    result_.traffic = meter_.traffic();
  }

 private:
  void allocate() {
    const auto moments = moments_needed(document_);
    unsigned __int128 total = 0;
    for (const BufferSpec& buffer : document_.buffers) total += (options_.compare_cpu ? 3 : 2) * buffer.bytes();
    for (const auto& [moment, buffer] : moments) total += document_.buffers[static_cast<std::size_t>(buffer)].bytes();
    if (total > options_.memory_limit) {
      throw Malformed(fmt::format("buffers and the copies that checks need take {:.2f} GiB, more than the limit of {:.2f} GiB",
                                  static_cast<double>(total) / 0x1p30, static_cast<double>(options_.memory_limit) / 0x1p30));
    }
    for (const BufferSpec& buffer : document_.buffers) {
      GuardedMemory memory(buffer.bytes());
      if (buffer.init != nullptr) {
        std::copy(buffer.init->bytes.begin(), buffer.init->bytes.end(), memory.data());
      } else {
        const auto size = static_cast<std::size_t>(size_of(buffer.dtype));
        for (std::size_t at = 0; at < buffer.bytes(); at += size) std::memcpy(memory.data() + at, buffer.fill.data(), size);
      }
      before_.push_back(copy_of(memory));
      if (device_) on_device_.emplace_back(device_->backend(), memory.size(), options_.guards);
      if (device_ && options_.compare_cpu) twins_.emplace_back(memory.size());
      live_.push_back(std::move(memory));
    }
  }

  static Bytes copy_of(const GuardedMemory& memory) {
    auto copy = std::make_unique_for_overwrite<std::byte[]>(memory.size());
    std::copy_n(memory.data(), memory.size(), copy.get());
    return copy;
  }

  // Where a call finds a buffer: on the device, if there is one.
  std::byte* address(std::int32_t buffer) {
    return device_ ? on_device_[static_cast<std::size_t>(buffer)].data() : live(buffer).data();
  }
  GuardedMemory& live(std::int32_t buffer) { return live_[static_cast<std::size_t>(buffer)]; }
  std::byte* before(std::int32_t buffer) { return before_[static_cast<std::size_t>(buffer)].get(); }
  const BufferSpec& spec(std::int32_t buffer) const { return document_.buffers[static_cast<std::size_t>(buffer)]; }

  void keep_moment(int moment) {
    for (auto at = moments_.lower_bound({moment, 0}); at != moments_.end() && at->first == moment; ++at) {
      kept_.emplace(*at, copy_of(live(at->second)));
    }
  }

  void fail(const std::string& call, std::optional<int> check, std::string detail) {
    result_.failed.push_back({call, check, std::move(detail)});
  }

  // Runs a call once, in a workspace of exactly the size it asked for, full of `garbage`.
  Status run_once(const BoundCall& bound, std::byte garbage, Counters& counters) {
    if (device_) return run_on_device(bound, garbage);
    return run_on_cpu(bound, workspace_, garbage, counters);
  }

  std::size_t workspace_bytes(const BoundCall& bound, const Launch& launch) const {
    const std::size_t bytes = workspace_size(bound, launch);
    if (bytes > options_.memory_limit) {
      throw Malformed(fmt::format("{} bytes of workspace, more than the limit of {}", bytes, options_.memory_limit));
    }
    return bytes;
  }

  Status run_on_cpu(const BoundCall& bound, GuardedMemory& workspace, std::byte garbage, Counters& counters) {
    Launch launch = context_.launch();
    launch.target = options_.target;
    launch.counters = &counters;
    const std::size_t bytes = workspace_bytes(bound, launch);
    if (workspace.size() != bytes) workspace = GuardedMemory(bytes);
    std::fill_n(workspace.data(), bytes, garbage);
    launch.workspace = {workspace.data(), bytes};
    const auto start = Clock::now();
    Status status = trace::run(bound, launch);
    result_.operation_seconds += seconds_since(start);
    return status;
  }

  // The whole trace goes to the device and comes back: a call may damage what is no argument of it.
  Status run_on_device(const BoundCall& bound, std::byte garbage) {
    Launch launch = device_->launch();
    const std::size_t bytes = workspace_bytes(bound, launch);
    if (workspace_.size() != bytes) workspace_ = GuardedMemory(bytes);
    const DeviceCopy workspace(device_->backend(), bytes, options_.guards);
    if (options_.guards) {
      std::fill_n(workspace_.data(), bytes, garbage);
      workspace.upload(workspace_);
    }
    launch.workspace = {workspace.data(), bytes};
    for (std::size_t b = 0; b < live_.size(); ++b) on_device_[b].upload(live_[b]);
    const auto start = Clock::now();
    Status status = trace::run(bound, launch);
    Status done = device_->wait();
    result_.operation_seconds += seconds_since(start);
    if (!done.ok()) throw Error(std::move(done));  // no call of this process can succeed any more
    for (std::size_t b = 0; b < live_.size(); ++b) on_device_[b].download(live_[b]);
    if (options_.guards) workspace.download(workspace_);
    return status;
  }

  void run_call(const Call& call, int index) {
    ++result_.calls;
    std::set<std::int32_t> touched;
    for (const Member& member : call.arguments) collect_buffers(member.argument, touched);
    const BoundCall bound = bind(call, [&](std::int32_t buffer) { return address(buffer); });
    Counters counters;
    const DeviceFlag flag_before = device_ ? device_->flag() : DeviceFlag{};
    const Status status = run_once(bound, std::byte{0xFF}, counters);
    check_guards(call);
    repeat(call, bound, status, touched);
    bool counted = !device_;
    if (device_ && options_.compare_cpu) counted = compare_with_cpu(call, status, touched, flag_before, counters);
    if (call.error) {
      check_error(call, status);
    } else if (!status.ok()) {
      fail(call.id, std::nullopt, fmt::format("{}: {}", name_of(status.kind), status.message));
    }
    if (call.error || !status.ok()) check_unchanged(call, status);
    if (status.ok() && counted) {
      meter_.add(bind(call, [&](std::int32_t buffer) { return before(buffer); }), counters);
    }
    check_expectations(call.id, call.expectations);
    keep_moment(index);
    for (const std::int32_t buffer : touched) std::copy_n(live(buffer).data(), live(buffer).size(), before(buffer));
  }

  // Guard bytes of every buffer and of the workspace; mended afterwards, so that each call answers for itself.
  void check_guards(const Call& call) {
    const auto check = [&](GuardedMemory& memory, const std::string& name) {
      const auto damage = memory.damage();
      if (!damage) return;
      fail(call.id, std::nullopt, fmt::format("{}: {}", name, *damage));
      memory.mend();
    };
    for (std::size_t b = 0; b < live_.size(); ++b) check(live_[b], "buffer " + document_.buffers[b].name);
    check(workspace_, "workspace");
  }

  // The call again, from the contents it had. All results must have the same bits, whatever was in the workspace.
  void repeat(const Call& call, const BoundCall& bound, const Status& status, const std::set<std::int32_t>& touched) {
    const int times = std::max(call.repeat, options_.repeat);
    if (times <= 1) return;
    std::map<std::int32_t, Bytes> written;  // buffers that the first run changed, as it left them
    for (const std::int32_t buffer : touched) {
      if (std::memcmp(live(buffer).data(), before(buffer), live(buffer).size()) != 0)
        written.emplace(buffer, copy_of(live(buffer)));
    }
    for (int run = 2; run <= times; ++run) {
      for (const auto& [buffer, unused] : written) std::copy_n(before(buffer), live(buffer).size(), live(buffer).data());
      Counters unused;
      const Status again = run_once(bound, static_cast<std::byte>(run * 37), unused);
      check_guards(call);
      if (again.kind != status.kind || again.message != status.message) {
        fail(call.id, std::nullopt,
             fmt::format("run {} of {}: {} \"{}\", the first run: {} \"{}\"", run, times, name_of(again.kind), again.message,
                         name_of(status.kind), status.message));
        return;
      }
      for (std::int32_t buffer = 0; buffer < static_cast<std::int32_t>(live_.size()); ++buffer) {
        // Buffers that are no argument are compared once, after the last run.
        if (run < times && !touched.contains(buffer)) continue;
        const auto first = written.find(buffer);
        const auto change = first_change(buffer, first == written.end() ? before(buffer) : first->second.get());
        if (!change) continue;
        fail(call.id, std::nullopt, fmt::format("run {} of {} gave other bits than the first: {}", run, times, *change));
        return;
      }
    }
  }

  // The call on the CPU, from the contents it had: the same status, the same bits. Returns whether the CPU ran it, and so counted it.
  bool compare_with_cpu(const Call& call, const Status& status, const std::set<std::int32_t>& touched,
                        const DeviceFlag& flag_before, Counters& counters) {
    for (const std::int32_t buffer : touched) std::copy_n(before(buffer), live(buffer).size(), twin(buffer).data());
    const BoundCall bound = bind(call, [&](std::int32_t buffer) { return twin(buffer).data(); });
    const Status wanted = run_on_cpu(bound, twin_workspace_, std::byte{0xFF}, counters);
    if (!wanted.ok() &&
        status.ok()) {  // wrong index contents, which only the CPU looks at beforehand; the flag is the device's answer
      ++result_.not_compared;
      return false;
    }
    ++result_.compared;
    if (wanted.ok() && !status.ok()) {
      fail(call.id, std::nullopt, fmt::format("fails on {} only: {}: {}", options_.backend, name_of(status.kind), status.message));
      return true;
    }
    if (wanted.kind != status.kind) {
      fail(call.id, std::nullopt,
           fmt::format("{} on {}, {} on the CPU", name_of(status.kind), options_.backend, name_of(wanted.kind)));
    }
    const DeviceFlag now = device_->flag();
    if (now.code != flag_before.code) {
      fail(call.id, std::nullopt, fmt::format("raised {}, and the CPU finds nothing wrong", text_of(now)));
    }
    for (const std::int32_t buffer : touched) {
      const Finding finding = check_contents(whole(buffer), live(buffer).data(), twin(buffer).data());
      if (finding.holds) continue;
      fail(call.id, std::nullopt,
           fmt::format("buffer {}: {} differs from the CPU: {}", spec(buffer).name, options_.backend, finding.detail));
    }
    return wanted.ok();
  }

  GuardedMemory& twin(std::int32_t buffer) { return twins_[static_cast<std::size_t>(buffer)]; }
  View whole(std::int32_t buffer) const {
    return {.buffer = buffer,
            .dtype = spec(buffer).dtype,
            .shape = {spec(buffer).elements},
            .strides = {1},
            .elements = spec(buffer).elements};
  }

  static std::string text_of(const DeviceFlag& flag) {
    if (flag.code == 0) return "no flag";
    return fmt::format("flag {} of {}, layer {}, row {}", name_of(static_cast<ErrorKind>(flag.code)),
                       name_of(static_cast<Operation>(flag.op)), flag.layer, flag.row);
  }

  Finding check_flag(const Expectation& e) const {
    const DeviceFlag flag = device_->flag();
    const bool holds =
        e.raised ? name_of(static_cast<ErrorKind>(flag.code)) == e.raised->code && flag.row == e.raised->row && flag.code != 0
                 : flag.code == 0;
    if (holds) return {};
    return {false, fmt::format("got {}, want {}", text_of(flag),
                               e.raised ? fmt::format("flag {}, row {}", e.raised->code, e.raised->row) : "no flag")};
  }

  // A trace without a word of flags is one without wrong contents.
  void check_silent_flag() {
    if (!device_) return;
    const auto names_flag = [](const Expectation& e) { return e.kind == Expectation::Kind::flag; };
    const auto has_flag = [&](const Call& call) { return std::ranges::any_of(call.expectations, names_flag); };
    if (std::ranges::any_of(document_.calls, has_flag) || std::ranges::any_of(document_.finally, names_flag)) return;
    ++result_.checks;
    if (const DeviceFlag flag = device_->flag(); flag.code != 0) fail("finally", std::nullopt, text_of(flag) + ", expected none");
  }

  // Where a buffer differs from these contents.
  std::optional<std::string> first_change(std::int32_t buffer, const std::byte* contents) {
    const std::byte* now = live(buffer).data();
    const std::size_t bytes = live(buffer).size();
    if (bytes == 0 || std::memcmp(now, contents, bytes) == 0) return std::nullopt;
    const auto element = static_cast<std::size_t>(size_of(spec(buffer).dtype));
    std::size_t at = 0;
    while (std::memcmp(now + at, contents + at, element) == 0) at += element;
    return fmt::format("buffer {} element {}: got {}, want {}", spec(buffer).name, at / element,
                       trace::text_of(spec(buffer).dtype, now + at), trace::text_of(spec(buffer).dtype, contents + at));
  }

  void check_error(const Call& call, const Status& status) {
    ++result_.checks;
    const ExpectedError& expected = *call.error;
    std::vector<const char*> kinds;
    for (const ErrorKind kind : expected.kinds) kinds.push_back(name_of(kind));
    if (status.ok()) {
      fail(call.id, std::nullopt, fmt::format("succeeded, expected {}", fmt::join(kinds, " or ")));
    } else if (std::find(expected.kinds.begin(), expected.kinds.end(), status.kind) == expected.kinds.end()) {
      fail(call.id, std::nullopt,
           fmt::format("{}: {}; expected {}", name_of(status.kind), status.message, fmt::join(kinds, " or ")));
    } else {
      for (const std::string& word : expected.mentions) {
        if (status.message.find(word) != std::string::npos) continue;
        fail(call.id, std::nullopt, fmt::format("the message \"{}\" does not mention \"{}\"", status.message, word));
      }
    }
  }

  // What failed, or had to, must have written nothing.
  void check_unchanged(const Call& call, const Status& status) {
    for (std::int32_t buffer = 0; buffer < static_cast<std::int32_t>(live_.size()); ++buffer) {
      const auto change = first_change(buffer, before(buffer));
      if (!change) continue;
      fail(call.id, std::nullopt, (status.ok() ? "must fail and leave everything unchanged: " : "failed, but changed ") + *change);
      break;
    }
  }

  void check_expectations(const std::string& call, const std::vector<Expectation>& expectations) {
    for (std::size_t i = 0; i < expectations.size(); ++i) {
      const Expectation& e = expectations[i];
      if (e.kind == Expectation::Kind::flag && !device_) continue;  // the CPU raises none
      ++result_.checks;
      const Finding finding = check(e);
      result_.max_error = std::max(result_.max_error, finding.max_error);
      if (!finding.holds && e.kind == Expectation::Kind::flag) {
        fail(call, static_cast<int>(i), finding.detail);
      } else if (!finding.holds) {
        fail(call, static_cast<int>(i),
             fmt::format("buffer {} offset {} shape [{}], {}", spec(e.view.buffer).name, e.view.offset,
                         fmt::join(e.view.shape, ", "), finding.detail));
      }
    }
  }

  Finding check(const Expectation& e) {
    using Kind = Expectation::Kind;
    if (e.kind == Kind::flag) return check_flag(e);
    const std::byte* got = live(e.view.buffer).data();
    switch (e.kind) {
      case Kind::bits:
        return check_bits(e.view, got, e.tensor->bytes.data());
      case Kind::tolerance:
        return check_tolerance(e.view, got, e.tensor->bytes.data(), e.rtol, e.atol);
      case Kind::same_as:
        return check_same(e.view, got, e.other, live(e.other.buffer).data());
      case Kind::unchanged_since: {
        Finding finding = check_same(e.view, got, e.view, kept_.at({e.moment, e.view.buffer}).get());
        const auto when = e.moment == kStart ? "start" : document_.calls[static_cast<std::size_t>(e.moment)].id;
        if (!finding.holds) finding.detail += ", unchanged since " + when;
        return finding;
      }
      case Kind::fill:
        return check_fill(e.view, got, e.element);
      case Kind::finite:
        return check_finite(e.view, got);
      case Kind::flag:
        break;
    }
    return {};
  }

  const Document& document_;
  const ReplayOptions& options_;
  Context& context_;
  ReplayResult& result_;
  std::vector<GuardedMemory> live_;
  std::vector<Bytes> before_;
  std::set<std::pair<int, std::int32_t>> moments_ = moments_needed(document_);
  std::map<std::pair<int, std::int32_t>, Bytes> kept_;
  GuardedMemory workspace_;
  std::optional<DeviceStream> device_;  // nothing: the CPU runs the calls
  std::vector<DeviceCopy> on_device_;   // of the live buffers
  std::vector<GuardedMemory> twins_;    // what the CPU computes with for a comparison
  GuardedMemory twin_workspace_;
  TrafficMeter meter_;
};

}  // namespace

std::uint64_t default_memory_limit() {
  constexpr std::uint64_t kMost = std::uint64_t{16} << 30;
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return kMost;
  return std::min(kMost, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) / 4 * 3);
}

Replayer::Replayer(ReplayOptions options) : options_(std::move(options)), context_(options_.threads) {
  context_.target = options_.target;
}

std::optional<std::string> Replayer::reason_to_skip(const Document& document) const {
  const auto& backends = document.backends;
  if (backends && std::find(backends->begin(), backends->end(), options_.backend) == backends->end()) {
    return fmt::format("for backends {}, not {}", fmt::join(*backends, ", "), options_.backend);
  }
  if (document.mode != "any" && document.mode != options_.mode) {
    return fmt::format("for mode {}, not {}", document.mode, options_.mode);
  }
  return std::nullopt;
}

ReplayResult Replayer::replay_file(const std::string& path) {
  const auto start = Clock::now();
  ReplayResult result;
  try {
    result = replay(read_trace(path));
  } catch (const std::bad_alloc&) {
    result.error = "not enough memory";
  } catch (const std::exception& error) {  // Malformed, or anything else that one file must not take the others down with
    result.error = error.what();
  }
  result.file = path;
  result.seconds = seconds_since(start);
  return result;
}

ReplayResult Replayer::replay(const Trace& trace) {
  const auto start = Clock::now();
  ReplayResult result;
  result.name = trace.document.name;
  result.description = trace.document.description;
  result.skipped = reason_to_skip(trace.document);
  if (!result.skipped) {
    try {
      Session(trace.document, options_, context_, result).run();
    } catch (const std::bad_alloc&) {
      result = {};
      result.error = "not enough memory";
    } catch (const std::exception& error) {
      result = {};
      result.error = error.what();
    }
  }
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace recoverssm::trace
