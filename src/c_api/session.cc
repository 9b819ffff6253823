// Sessions in C: reads the C structs, calls the C++ session, keeps the error. One function of session.hpp is one here.
#include "recoverssm/session.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "c_api/context.h"
#include "c_api/export.h"
#include "c_api/import.h"
#include "recoverssm/session.h"

using namespace recoverssm;
using namespace recoverssm::c_api;

struct recoverssm_session {
  recoverssm_session(SessionConfig config, std::span<const LayerPool> pools) : session(std::move(config), pools) {}
  explicit recoverssm_session(SessionConfig config) : session(std::move(config)) {}

  Session session;
};

namespace {

// More entries than that in a plain array are rather a count nobody set.
constexpr std::size_t kMostEntries = 1048576;

// A pointer that must not be null, and what it is for.
struct Needed {
  const char* argument;
  const void* pointer;
  const char* expected;
};

Status check_given(const char* op, std::initializer_list<Needed> all) {
  for (const Needed& needed : all) {
    if (needed.pointer == nullptr) return invalid(op, needed.argument, "null", needed.expected);
  }
  return {};
}

Needed of_session(const recoverssm_session* session) { return {"session", session, "a session"}; }
Needed of_bytes(const void* checkpoint) { return {"checkpoint", checkpoint, "the bytes of a checkpoint"}; }
template <class T>
Needed result(const char* argument, const T* pointer) {
  return {argument, pointer, "where to write it"};
}

Status check_entries(const char* op, const char* argument, const void* array, std::size_t count) {
  if (count > kMostEntries) {
    return invalid(op, argument, std::to_string(count) + " entries", "at most " + std::to_string(kMostEntries));
  }
  return array == nullptr && count > 0 ? invalid(op, argument, "null", std::to_string(count) + " entries") : Status{};
}

// Room that the caller offers.
Status check_room(const char* op, const char* argument, const void* array, std::size_t capacity) {
  return array == nullptr && capacity > 0 ? invalid(op, argument, "null", "room for " + std::to_string(capacity) + " entries")
                                          : Status{};
}
template <class T>
void give(const std::vector<T>& all, T* array, std::size_t capacity, std::size_t* count) {
  std::copy_n(all.begin(), std::min(capacity, all.size()), array);
  *count = all.size();
}

// Bytes that the caller asked for, with the size it takes in any case. `what` is the argument's name.
Status check_capacity(const char* op, const char* what, std::size_t capacity, std::size_t needed) {
  if (capacity >= needed) return {};
  return invalid(op, what, "capacity " + std::to_string(capacity), "at least " + std::to_string(needed) + " bytes");
}

// Calls body with the C++ session; what it throws becomes the status.
template <class Body>
int call(const char* op, const recoverssm_session* session, std::initializer_list<Needed> needed, Body&& body) noexcept {
  return guarded([&]() -> Status {
    if (Status status = check_given(op, {of_session(session)}); !status.ok()) return status;
    if (Status status = check_given(op, needed); !status.ok()) return status;
    return body();
  });
}

Status read_rows(const char* op, const recoverssm_step_row* rows, std::size_t count, std::vector<StepRow>& to) {
  if (Status status = check_entries(op, "rows", rows, count); !status.ok()) return status;
  to.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const recoverssm_step_row& row = rows[i];
    const auto refuse = [&](const char* field, std::int64_t got, const char* expected) {
      return invalid(op, "rows[" + std::to_string(i) + "]." + field, std::to_string(got), expected);
    };
    if (row.reserved != 0) return refuse("reserved", row.reserved, "0");
    if (row.kind < 0 || row.kind > 255) return refuse("kind", row.kind, "one of the constants");
    if (row.has_num_computed != 0 && row.has_num_computed != 1) return refuse("has_num_computed", row.has_num_computed, "0 or 1");
    if (row.has_num_computed == 1 && row.num_computed < 0) return refuse("num_computed", row.num_computed, "0 or more");
    const std::int64_t num_computed = row.has_num_computed == 1 ? row.num_computed : -1;
    to.push_back({row.request, static_cast<RowKind>(row.kind), row.tokens, num_computed});
  }
  return {};
}

// Reads an argument that is one struct.
template <class Cpp, class C>
Status read_struct(const char* op, const char* argument, const C* from, Cpp& to) {
  ListMemory memory;
  Import import(op, memory);
  import.read(argument, from, to);
  return import.take();
}

// Whether a struct can be filled for its caller.
template <class Cpp, class C>
Status check_version(const char* op, const char* argument, const C* to) {
  ListMemory memory;
  Import import(op, memory);
  import.check<Cpp>(argument, to);
  return import.take();
}

// Fills a struct with value(), which is not asked for if the struct has no size.
template <class Cpp, class C, class Value>
Status fill(const char* op, const char* argument, C* to, Value&& value) {
  if (Status status = check_version<Cpp>(op, argument, to); !status.ok()) return status;
  write(to, to->struct_size, Cpp(value()));
  return {};
}

// What a refused call leaves in a handle or size.
template <class T>
void clear(T* result) {
  if (result != nullptr) *result = {};
}

}  // namespace

// clang-format off
#define RECOVERSSM_STRUCT(name, Cpp) \
  void recoverssm_##name##_init(recoverssm_##name* to, size_t size) { init<Cpp>(to, size); }
// clang-format on

RECOVERSSM_STRUCT(layer_config, LayerConfig)
RECOVERSSM_STRUCT(group_config, GroupConfig)
RECOVERSSM_STRUCT(session_config, SessionConfig)
RECOVERSSM_STRUCT(layer_pool, LayerPool)
RECOVERSSM_STRUCT(session_memory, SessionSizes)
RECOVERSSM_STRUCT(delta_inputs, DeltaInputs)
RECOVERSSM_STRUCT(short_conv_inputs, ShortConvInputs)
RECOVERSSM_STRUCT(request_info, RequestInfo)
RECOVERSSM_STRUCT(block_tag, BlockTag)
RECOVERSSM_STRUCT(session_counts, SessionCounters)
RECOVERSSM_STRUCT(checkpoint_info, CheckpointInfo)

#undef RECOVERSSM_STRUCT

static_assert(RECOVERSSM_CHECKPOINT_VERSION == kCheckpointVersion);

int recoverssm_session_sizes(const recoverssm_session_config* config, recoverssm_session_memory* memory,
                             recoverssm_layer_memory* layers, int64_t* group_blocks) {
  const char* const op = "session_sizes";
  return guarded([&]() -> Status {
    SessionConfig from;
    if (Status status = read_struct(op, "config", config, from); !status.ok()) return status;
    if (Status status = check_version<SessionSizes>(op, "memory", memory); !status.ok()) return status;
    const SessionSizes sizes = session_sizes(from);
    write(memory, memory->struct_size, sizes);
    for (std::size_t i = 0; layers != nullptr && i < sizes.layers.size(); ++i) {
      const SessionSizes::Layer& layer = sizes.layers[i];
      layers[i] = {layer.state, layer.line, layer.records, layer.pending, {}};
    }
    if (group_blocks != nullptr) std::copy(sizes.block.begin(), sizes.block.end(), group_blocks);
    return {};
  });
}

int recoverssm_session_create(const recoverssm_session_config* config, const recoverssm_layer_pool* pools, size_t pool_count,
                              recoverssm_session** session) {
  const char* const op = "session_create";
  clear(session);
  return guarded([&]() -> Status {
    if (Status status = check_given(op, {result("session", session)}); !status.ok()) return status;
    ListMemory memory;
    Import import(op, memory);
    SessionConfig from;
    std::vector<LayerPool> given;
    import.read("config", config, from);
    import.read("pools", pools, pool_count, given);
    if (!import.ok()) return import.take();
    const bool own = pools == nullptr;
    *session = (own ? std::make_unique<recoverssm_session>(std::move(from))
                    : std::make_unique<recoverssm_session>(std::move(from), std::span<const LayerPool>(given)))
                   .release();
    return {};
  });
}

void recoverssm_session_destroy(recoverssm_session* session) { delete session; }

// ---- requests ----

int recoverssm_session_admit(recoverssm_session* session, uint64_t* request) {
  clear(request);
  return call("session_admit", session, {result("request", request)}, [&]() -> Status {
    *request = session->session.admit();
    return {};
  });
}

int recoverssm_session_admit_prefix(recoverssm_session* session, uint64_t prefix, recoverssm_context* context, uint64_t* request) {
  const char* const op = "session_admit_prefix";
  clear(request);
  return call(op, session, {result("request", request)}, [&]() -> Status {
    if (Status status = check_context(op, context); !status.ok()) return status;
    *request = session->session.admit(prefix, context->context);
    return {};
  });
}

int recoverssm_session_finish(recoverssm_session* session, uint64_t request) {
  return call("session_finish", session, {}, [&]() -> Status {
    session->session.finish(request);
    return {};
  });
}

int recoverssm_session_finish_and_hold(recoverssm_session* session, uint64_t request, recoverssm_context* context,
                                       uint64_t* prefix) {
  const char* const op = "session_finish_and_hold";
  clear(prefix);
  return call(op, session, {result("prefix", prefix)}, [&]() -> Status {
    if (Status status = check_context(op, context); !status.ok()) return status;
    *prefix = session->session.finish_and_hold(request, context->context);
    return {};
  });
}

int recoverssm_session_preempt(recoverssm_session* session, uint64_t request) {
  return call("session_preempt", session, {}, [&]() -> Status {
    session->session.preempt(request);
    return {};
  });
}

int recoverssm_session_info(const recoverssm_session* session, uint64_t request, recoverssm_request_info* info) {
  const char* const op = "session_info";
  return call(op, session, {}, [&] { return fill<RequestInfo>(op, "info", info, [&] { return session->session.info(request); }); });
}

int recoverssm_session_blocks(const recoverssm_session* session, uint64_t request, int32_t* blocks, size_t capacity,
                              size_t* count) {
  const char* const op = "session_blocks";
  clear(count);
  return call(op, session, {result("count", count)}, [&]() -> Status {
    if (Status status = check_room(op, "blocks", blocks, capacity); !status.ok()) return status;
    give(session->session.info(request).blocks, blocks, capacity, count);
    return {};
  });
}

// ---- steps ----

int recoverssm_session_fits(const recoverssm_session* session, const recoverssm_step_row* rows, size_t row_count, int32_t* fits) {
  const char* const op = "session_fits";
  return call(op, session, {result("fits", fits)}, [&]() -> Status {
    std::vector<StepRow> read;
    if (Status status = read_rows(op, rows, row_count, read); !status.ok()) return status;
    *fits = session->session.fits(read) ? 1 : 0;
    return {};
  });
}

int recoverssm_session_open_step(recoverssm_session* session, const recoverssm_step_row* rows, size_t row_count,
                                 recoverssm_context* context, uint64_t* step) {
  const char* const op = "session_open_step";
  clear(step);
  return call(op, session, {result("step", step)}, [&]() -> Status {
    std::vector<StepRow> read;
    if (Status status = read_rows(op, rows, row_count, read); !status.ok()) return status;
    if (Status status = check_context(op, context); !status.ok()) return status;
    *step = session->session.open_step(read, context->context);
    return {};
  });
}

namespace {

template <class Inputs, class C>
int forward(const char* op, recoverssm_session* session, std::uint64_t step, std::int32_t layer, const C* inputs,
            recoverssm_context* context) {
  return call(op, session, {}, [&]() -> Status {
    Inputs read;
    if (Status status = read_struct(op, "inputs", inputs, read); !status.ok()) return status;
    if (Status status = check_context(op, context); !status.ok()) return status;
    session->session.forward(step, layer, read, context->context);
    return {};
  });
}

}  // namespace

int recoverssm_session_forward_delta(recoverssm_session* session, uint64_t step, int32_t layer,
                                     const recoverssm_delta_inputs* inputs, recoverssm_context* context) {
  return forward<DeltaInputs>("session_forward_delta", session, step, layer, inputs, context);
}

int recoverssm_session_forward_short_conv(recoverssm_session* session, uint64_t step, int32_t layer,
                                          const recoverssm_short_conv_inputs* inputs, recoverssm_context* context) {
  return forward<ShortConvInputs>("session_forward_short_conv", session, step, layer, inputs, context);
}

int recoverssm_session_commit(recoverssm_session* session, uint64_t step, const recoverssm_accepted* accepted,
                              size_t accepted_count, recoverssm_context* context) {
  const char* const op = "session_commit";
  return call(op, session, {}, [&]() -> Status {
    if (Status status = check_entries(op, "accepted", accepted, accepted_count); !status.ok()) return status;
    std::vector<Accepted> read;
    read.reserve(accepted_count);
    for (std::size_t i = 0; i < accepted_count; ++i) {
      if (accepted[i].reserved != 0) {
        return invalid(op, "accepted[" + std::to_string(i) + "].reserved", std::to_string(accepted[i].reserved), "0");
      }
      read.push_back({accepted[i].request, accepted[i].count});
    }
    if (Status status = check_context(op, context); !status.ok()) return status;
    session->session.commit(step, read, context->context);
    return {};
  });
}

int recoverssm_session_abandon(recoverssm_session* session, uint64_t step) {
  return call("session_abandon", session, {}, [&]() -> Status {
    session->session.abandon(step);
    return {};
  });
}

// ---- states ----

int recoverssm_session_materialize(recoverssm_session* session, const uint64_t* requests, size_t request_count,
                                   recoverssm_context* context) {
  const char* const op = "session_materialize";
  return call(op, session, {}, [&]() -> Status {
    if (Status status = check_entries(op, "requests", requests, request_count); !status.ok()) return status;
    if (Status status = check_context(op, context); !status.ok()) return status;
    session->session.materialize({requests, request_count}, context->context);
    return {};
  });
}

int recoverssm_session_exportable(const recoverssm_session* session, uint64_t request, int64_t* tokens, size_t capacity,
                                  size_t* count) {
  const char* const op = "session_exportable";
  clear(count);
  return call(op, session, {result("count", count)}, [&]() -> Status {
    if (Status status = check_room(op, "tokens", tokens, capacity); !status.ok()) return status;
    give(session->session.exportable(request), tokens, capacity, count);
    return {};
  });
}

int recoverssm_session_fork(recoverssm_session* session, uint64_t request, recoverssm_context* context, uint64_t* copy) {
  const char* const op = "session_fork";
  clear(copy);
  return call(op, session, {result("copy", copy)}, [&]() -> Status {
    if (Status status = check_context(op, context); !status.ok()) return status;
    *copy = session->session.fork(request, context->context);
    return {};
  });
}

int recoverssm_session_hold(recoverssm_session* session, uint64_t request, int64_t tokens, recoverssm_context* context,
                            uint64_t* prefix) {
  const char* const op = "session_hold";
  clear(prefix);
  return call(op, session, {result("prefix", prefix)}, [&]() -> Status {
    if (Status status = check_context(op, context); !status.ok()) return status;
    *prefix = session->session.hold(request, tokens, context->context);
    return {};
  });
}

int recoverssm_session_release(recoverssm_session* session, uint64_t prefix) {
  return call("session_release", session, {}, [&]() -> Status {
    session->session.release(prefix);
    return {};
  });
}

int recoverssm_session_prefix_tokens(const recoverssm_session* session, uint64_t prefix, int64_t* tokens) {
  return call("session_prefix_tokens", session, {result("tokens", tokens)}, [&]() -> Status {
    *tokens = session->session.tokens(prefix);
    return {};
  });
}

int recoverssm_session_export_checkpoint(recoverssm_session* session, uint64_t request, int64_t tokens, uint64_t tag,
                                         recoverssm_context* context, void* checkpoint, size_t capacity, size_t* size) {
  const char* const op = "session_export_checkpoint";
  clear(size);
  return call(op, session, {result("size", size)}, [&]() -> Status {
    if (Status status = check_room(op, "checkpoint", checkpoint, capacity); !status.ok()) return status;
    // Before anything is folded or allocated.
    *size = static_cast<std::size_t>(session_sizes(session->session.config()).checkpoint);
    if (checkpoint == nullptr) return {};
    if (Status status = check_capacity(op, "checkpoint", capacity, *size); !status.ok()) return status;
    clear(size);
    if (Status status = check_context(op, context); !status.ok()) return status;
    const std::vector<std::byte> bytes = session->session.export_checkpoint(request, tokens, tag, context->context);
    if (Status status = check_capacity(op, "checkpoint", capacity, bytes.size()); !status.ok()) return status;
    std::memcpy(checkpoint, bytes.data(), bytes.size());
    *size = bytes.size();
    return {};
  });
}

int recoverssm_session_restore(recoverssm_session* session, uint64_t request, const void* checkpoint, size_t size, int64_t tokens,
                               uint64_t tag) {
  return call("session_restore", session, {of_bytes(checkpoint)}, [&]() -> Status {
    session->session.restore(request, {static_cast<const std::byte*>(checkpoint), size}, tokens, tag);
    return {};
  });
}

// ---- looking ----

int recoverssm_session_free_blocks(const recoverssm_session* session, int32_t group, int32_t* blocks) {
  return call("session_free_blocks", session, {result("blocks", blocks)}, [&]() -> Status {
    *blocks = session->session.free_blocks(group);
    return {};
  });
}

int recoverssm_session_requests(const recoverssm_session* session, int32_t* requests) {
  return call("session_requests", session, {result("requests", requests)}, [&]() -> Status {
    *requests = session->session.requests();
    return {};
  });
}

int recoverssm_session_open_steps(const recoverssm_session* session, int32_t* steps) {
  return call("session_open_steps", session, {result("steps", steps)}, [&]() -> Status {
    *steps = session->session.open_steps();
    return {};
  });
}

int recoverssm_session_prefixes(const recoverssm_session* session, int32_t* prefixes) {
  return call("session_prefixes", session, {result("prefixes", prefixes)}, [&]() -> Status {
    *prefixes = session->session.prefixes();
    return {};
  });
}

int recoverssm_session_block_tag(const recoverssm_session* session, int32_t group, int32_t block, recoverssm_block_tag* tag) {
  const char* const op = "session_block_tag";
  return call(op, session, {},
              [&] { return fill<BlockTag>(op, "tag", tag, [&] { return session->session.block_tag(group, block); }); });
}

int recoverssm_session_pool(const recoverssm_session* session, int32_t layer, recoverssm_layer_pool* pool,
                            recoverssm_records* records) {
  const char* const op = "session_pool";
  return call(op, session, {}, [&]() -> Status {
    if (Status status = check_version<LayerPool>(op, "pool", pool); !status.ok()) return status;
    if (records != nullptr) {
      if (Status status = check_version<Records>(op, "records", records); !status.ok()) return status;
    }
    const LayerPool& of_layer = session->session.pool(layer);
    write(pool, pool->struct_size, of_layer);
    if (records == nullptr) return {};
    write(records, records->struct_size, of_layer.records);
    const bool room = pool->struct_size >= offsetof(recoverssm_layer_pool, records) + sizeof pool->records;
    if (room && of_layer.records.present()) pool->records = records;
    return {};
  });
}

int recoverssm_session_counters(const recoverssm_session* session, recoverssm_session_counts* counts,
                                recoverssm_counters* traffic) {
  const char* const op = "session_counters";
  return call(op, session, {}, [&]() -> Status {
    const SessionCounters& counters = session->session.counters();
    if (traffic != nullptr) {
      if (Status status = check_version<Counters>(op, "traffic", traffic); !status.ok()) return status;
    }
    if (Status status = fill<SessionCounters>(op, "counts", counts, [&] { return counters; }); !status.ok()) return status;
    if (traffic != nullptr) write(traffic, traffic->struct_size, counters.traffic);
    return {};
  });
}

int recoverssm_prefix_hit(int64_t attention_tokens, const int64_t* const* groups, const size_t* counts, size_t group_count,
                          int64_t* tokens) {
  const char* const op = "prefix_hit";
  return guarded([&]() -> Status {
    if (Status status = check_given(op, {result("tokens", tokens)}); !status.ok()) return status;
    if (Status status = check_entries(op, "groups", groups, group_count); !status.ok()) return status;
    if (Status status = check_entries(op, "counts", counts, group_count); !status.ok()) return status;
    std::vector<std::vector<std::int64_t>> read(group_count);
    for (std::size_t g = 0; g < group_count; ++g) {
      const std::string name = "groups[" + std::to_string(g) + "]";
      if (Status status = check_entries(op, name.c_str(), groups[g], counts[g]); !status.ok()) return status;
      read[g].assign(groups[g], groups[g] + counts[g]);
    }
    *tokens = prefix_hit(attention_tokens, read);
    return {};
  });
}

// ---- checkpoints ----

int recoverssm_checkpoint_inspect(const void* checkpoint, size_t size, recoverssm_checkpoint_info* info) {
  const char* const op = "checkpoint_inspect";
  return guarded([&]() -> Status {
    if (Status status = check_given(op, {of_bytes(checkpoint)}); !status.ok()) return status;
    return fill<CheckpointInfo>(op, "info", info, [&] {
      return inspect_checkpoint({static_cast<const std::byte*>(checkpoint), size});
    });
  });
}

int recoverssm_checkpoint_write(const char* path, const void* checkpoint, size_t size) {
  const char* const op = "checkpoint_write";
  return guarded([&]() -> Status {
    if (Status status = check_given(op, {{"path", path, "a path"}, of_bytes(checkpoint)}); !status.ok()) return status;
    write_checkpoint(path, {static_cast<const std::byte*>(checkpoint), size});
    return {};
  });
}

int recoverssm_checkpoint_read(const char* path, void* checkpoint, size_t capacity, size_t* size) {
  const char* const op = "checkpoint_read";
  clear(size);
  return guarded([&]() -> Status {
    if (Status status = check_given(op, {result("size", size), {"path", path, "a path"}}); !status.ok()) return status;
    if (Status status = check_room(op, "checkpoint", checkpoint, capacity); !status.ok()) return status;
    const std::vector<std::byte> bytes = read_checkpoint(path);
    *size = bytes.size();
    if (checkpoint == nullptr) return {};
    if (Status status = check_capacity(op, "checkpoint", capacity, bytes.size()); !status.ok()) return status;
    std::memcpy(checkpoint, bytes.data(), bytes.size());
    return {};
  });
}
