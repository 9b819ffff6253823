// The rules of the ABI for the functions of sessions: null arguments, versions of structs, room for results, reserved fields, contexts.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "abi_support.h"
#include "session_twin.h"

namespace c_api_tests {
namespace {

using namespace recoverssm;

class SessionAbi : public ::testing::Test {
 protected:
  SessionAbi() : twin_({.blocks = 4}), config_(twin_.c_model.config()) {
    EXPECT_EQ(recoverssm_session_admit(session(), &request_), RECOVERSSM_OK);
  }
  recoverssm_session* session() { return twin_.c; }
  recoverssm_context* context() { return twin_.c_context; }

  // A request after 3 tokens, and its checkpoint.
  std::vector<std::byte> checkpoint() {
    Twin twin({.blocks = 4});
    const std::uint64_t id = twin.admit();
    const StepRow row{id, RowKind::prefill, 3, -1};
    const std::uint64_t step = twin.open_step({&row, 1});
    twin.forward(step, 3, 1);
    twin.commit(step, {});
    return twin.export_checkpoint(id, 3, 9);
  }

  Twin twin_;
  CConfig config_;
  std::uint64_t request_ = 0;
};

// One call with one argument null, and what is said about it.
struct NullCase {
  const char* refused;
  std::function<int()> call;
};

TEST_F(SessionAbi, NullArguments) {
  recoverssm_session* const s = session();
  recoverssm_context* const ctx = context();
  std::uint64_t id = 77;
  std::int32_t number = -77;
  std::int64_t tokens = -77;
  std::size_t size = 77;
  const recoverssm_step_row row{request_, 0, 0, RECOVERSSM_ROW_PREFILL, 1, 0};
  const recoverssm_accepted accepted{request_, 1, 0};
  recoverssm_delta_inputs delta;
  recoverssm_delta_inputs_init(&delta, sizeof delta);
  recoverssm_short_conv_inputs conv;
  recoverssm_short_conv_inputs_init(&conv, sizeof conv);
  recoverssm_request_info info;
  recoverssm_request_info_init(&info, sizeof info);
  recoverssm_block_tag tag;
  recoverssm_block_tag_init(&tag, sizeof tag);
  recoverssm_layer_pool pool;
  recoverssm_layer_pool_init(&pool, sizeof pool);
  recoverssm_session_counts counts;
  recoverssm_session_counts_init(&counts, sizeof counts);
  recoverssm_session_memory memory;
  recoverssm_session_memory_init(&memory, sizeof memory);
  recoverssm_checkpoint_info checkpoint_info;
  recoverssm_checkpoint_info_init(&checkpoint_info, sizeof checkpoint_info);
  recoverssm_session* made = s;
  std::vector<std::byte> bytes = checkpoint();
  std::int64_t list[2] = {1, 2};
  const std::int64_t* const lists[2] = {list, nullptr};
  const std::size_t list_counts[2] = {2, 1};
  const NullCase cases[] = {
      {"session_sizes: config: null", [&] { return recoverssm_session_sizes(nullptr, &memory, nullptr, nullptr); }},
      {"session_sizes: memory: null", [&] { return recoverssm_session_sizes(&config_.config, nullptr, nullptr, nullptr); }},
      {"session_create: config: null", [&] { return recoverssm_session_create(nullptr, nullptr, 0, &made); }},
      {"session_create: pools: null", [&] { return recoverssm_session_create(&config_.config, nullptr, 3, &made); }},
      {"session_create: session: null", [&] { return recoverssm_session_create(&config_.config, nullptr, 0, nullptr); }},
      {"session_admit: session: null", [&] { return recoverssm_session_admit(nullptr, &id); }},
      {"session_admit: request: null", [&] { return recoverssm_session_admit(s, nullptr); }},
      {"session_admit_prefix: session: null", [&] { return recoverssm_session_admit_prefix(nullptr, 1, ctx, &id); }},
      {"session_admit_prefix: context: null", [&] { return recoverssm_session_admit_prefix(s, 1, nullptr, &id); }},
      {"session_admit_prefix: request: null", [&] { return recoverssm_session_admit_prefix(s, 1, ctx, nullptr); }},
      {"session_finish: session: null", [&] { return recoverssm_session_finish(nullptr, request_); }},
      {"session_finish_and_hold: session: null", [&] { return recoverssm_session_finish_and_hold(nullptr, 1, ctx, &id); }},
      {"session_finish_and_hold: context: null", [&] { return recoverssm_session_finish_and_hold(s, 1, nullptr, &id); }},
      {"session_finish_and_hold: prefix: null", [&] { return recoverssm_session_finish_and_hold(s, 1, ctx, nullptr); }},
      {"session_preempt: session: null", [&] { return recoverssm_session_preempt(nullptr, request_); }},
      {"session_info: session: null", [&] { return recoverssm_session_info(nullptr, request_, &info); }},
      {"session_info: info: null", [&] { return recoverssm_session_info(s, request_, nullptr); }},
      {"session_blocks: session: null", [&] { return recoverssm_session_blocks(nullptr, request_, &number, 1, &size); }},
      {"session_blocks: blocks: null", [&] { return recoverssm_session_blocks(s, request_, nullptr, 1, &size); }},
      {"session_blocks: count: null", [&] { return recoverssm_session_blocks(s, request_, &number, 1, nullptr); }},
      {"session_fits: session: null", [&] { return recoverssm_session_fits(nullptr, &row, 1, &number); }},
      {"session_fits: rows: null", [&] { return recoverssm_session_fits(s, nullptr, 1, &number); }},
      {"session_fits: fits: null", [&] { return recoverssm_session_fits(s, &row, 1, nullptr); }},
      {"session_open_step: session: null", [&] { return recoverssm_session_open_step(nullptr, &row, 1, ctx, &id); }},
      {"session_open_step: rows: null", [&] { return recoverssm_session_open_step(s, nullptr, 1, ctx, &id); }},
      {"session_open_step: context: null", [&] { return recoverssm_session_open_step(s, &row, 1, nullptr, &id); }},
      {"session_open_step: step: null", [&] { return recoverssm_session_open_step(s, &row, 1, ctx, nullptr); }},
      {"session_forward_delta: session: null", [&] { return recoverssm_session_forward_delta(nullptr, 1, 0, &delta, ctx); }},
      {"session_forward_delta: inputs: null", [&] { return recoverssm_session_forward_delta(s, 1, 0, nullptr, ctx); }},
      {"session_forward_delta: context: null", [&] { return recoverssm_session_forward_delta(s, 1, 0, &delta, nullptr); }},
      {"session_forward_short_conv: session: null",
       [&] { return recoverssm_session_forward_short_conv(nullptr, 1, 0, &conv, ctx); }},
      {"session_forward_short_conv: inputs: null", [&] { return recoverssm_session_forward_short_conv(s, 1, 0, nullptr, ctx); }},
      {"session_forward_short_conv: context: null", [&] { return recoverssm_session_forward_short_conv(s, 1, 0, &conv, nullptr); }},
      {"session_commit: session: null", [&] { return recoverssm_session_commit(nullptr, 1, &accepted, 1, ctx); }},
      {"session_commit: accepted: null", [&] { return recoverssm_session_commit(s, 1, nullptr, 1, ctx); }},
      {"session_commit: context: null", [&] { return recoverssm_session_commit(s, 1, &accepted, 1, nullptr); }},
      {"session_abandon: session: null", [&] { return recoverssm_session_abandon(nullptr, 1); }},
      {"session_materialize: session: null", [&] { return recoverssm_session_materialize(nullptr, &request_, 1, ctx); }},
      {"session_materialize: requests: null", [&] { return recoverssm_session_materialize(s, nullptr, 1, ctx); }},
      {"session_materialize: context: null", [&] { return recoverssm_session_materialize(s, &request_, 1, nullptr); }},
      {"session_exportable: session: null", [&] { return recoverssm_session_exportable(nullptr, request_, &tokens, 1, &size); }},
      {"session_exportable: tokens: null", [&] { return recoverssm_session_exportable(s, request_, nullptr, 1, &size); }},
      {"session_exportable: count: null", [&] { return recoverssm_session_exportable(s, request_, &tokens, 1, nullptr); }},
      {"session_fork: session: null", [&] { return recoverssm_session_fork(nullptr, request_, ctx, &id); }},
      {"session_fork: context: null", [&] { return recoverssm_session_fork(s, request_, nullptr, &id); }},
      {"session_fork: copy: null", [&] { return recoverssm_session_fork(s, request_, ctx, nullptr); }},
      {"session_hold: session: null", [&] { return recoverssm_session_hold(nullptr, request_, 1, ctx, &id); }},
      {"session_hold: context: null", [&] { return recoverssm_session_hold(s, request_, 1, nullptr, &id); }},
      {"session_hold: prefix: null", [&] { return recoverssm_session_hold(s, request_, 1, ctx, nullptr); }},
      {"session_release: session: null", [&] { return recoverssm_session_release(nullptr, 1); }},
      {"session_prefix_tokens: session: null", [&] { return recoverssm_session_prefix_tokens(nullptr, 1, &tokens); }},
      {"session_prefix_tokens: tokens: null", [&] { return recoverssm_session_prefix_tokens(s, 1, nullptr); }},
      {"session_export_checkpoint: session: null",
       [&] { return recoverssm_session_export_checkpoint(nullptr, request_, 1, 0, ctx, bytes.data(), bytes.size(), &size); }},
      {"session_export_checkpoint: context: null",
       [&] { return recoverssm_session_export_checkpoint(s, request_, 1, 0, nullptr, bytes.data(), bytes.size(), &size); }},
      {"session_export_checkpoint: checkpoint: null",
       [&] { return recoverssm_session_export_checkpoint(s, request_, 1, 0, ctx, nullptr, 1, &size); }},
      {"session_export_checkpoint: size: null",
       [&] { return recoverssm_session_export_checkpoint(s, request_, 1, 0, ctx, bytes.data(), bytes.size(), nullptr); }},
      {"session_restore: session: null",
       [&] { return recoverssm_session_restore(nullptr, request_, bytes.data(), bytes.size(), 3, 9); }},
      {"session_restore: checkpoint: null", [&] { return recoverssm_session_restore(s, request_, nullptr, 0, 3, 9); }},
      {"session_free_blocks: session: null", [&] { return recoverssm_session_free_blocks(nullptr, 0, &number); }},
      {"session_free_blocks: blocks: null", [&] { return recoverssm_session_free_blocks(s, 0, nullptr); }},
      {"session_requests: session: null", [&] { return recoverssm_session_requests(nullptr, &number); }},
      {"session_requests: requests: null", [&] { return recoverssm_session_requests(s, nullptr); }},
      {"session_open_steps: session: null", [&] { return recoverssm_session_open_steps(nullptr, &number); }},
      {"session_open_steps: steps: null", [&] { return recoverssm_session_open_steps(s, nullptr); }},
      {"session_prefixes: session: null", [&] { return recoverssm_session_prefixes(nullptr, &number); }},
      {"session_prefixes: prefixes: null", [&] { return recoverssm_session_prefixes(s, nullptr); }},
      {"session_block_tag: session: null", [&] { return recoverssm_session_block_tag(nullptr, 0, 1, &tag); }},
      {"session_block_tag: tag: null", [&] { return recoverssm_session_block_tag(s, 0, 1, nullptr); }},
      {"session_pool: session: null", [&] { return recoverssm_session_pool(nullptr, 0, &pool, nullptr); }},
      {"session_pool: pool: null", [&] { return recoverssm_session_pool(s, 0, nullptr, nullptr); }},
      {"session_counters: session: null", [&] { return recoverssm_session_counters(nullptr, &counts, nullptr); }},
      {"session_counters: counts: null", [&] { return recoverssm_session_counters(s, nullptr, nullptr); }},
      {"prefix_hit: groups: null", [&] { return recoverssm_prefix_hit(1, nullptr, list_counts, 2, &tokens); }},
      {"prefix_hit: counts: null", [&] { return recoverssm_prefix_hit(1, lists, nullptr, 2, &tokens); }},
      {"prefix_hit: groups[1]: null", [&] { return recoverssm_prefix_hit(1, lists, list_counts, 2, &tokens); }},
      {"prefix_hit: tokens: null", [&] { return recoverssm_prefix_hit(1, lists, list_counts, 1, nullptr); }},
      {"checkpoint_inspect: checkpoint: null", [&] { return recoverssm_checkpoint_inspect(nullptr, 8, &checkpoint_info); }},
      {"checkpoint_inspect: info: null", [&] { return recoverssm_checkpoint_inspect(bytes.data(), bytes.size(), nullptr); }},
      {"checkpoint_write: path: null", [&] { return recoverssm_checkpoint_write(nullptr, bytes.data(), bytes.size()); }},
      {"checkpoint_write: checkpoint: null", [&] { return recoverssm_checkpoint_write("/nowhere", nullptr, 8); }},
      {"checkpoint_read: path: null", [&] { return recoverssm_checkpoint_read(nullptr, bytes.data(), bytes.size(), &size); }},
      {"checkpoint_read: checkpoint: null", [&] { return recoverssm_checkpoint_read("/nowhere", nullptr, 8, &size); }},
      {"checkpoint_read: size: null", [&] { return recoverssm_checkpoint_read("/nowhere", bytes.data(), bytes.size(), nullptr); }},
  };
  for (const NullCase& one : cases) {
    id = 77, size = 77;
    EXPECT_EQ(one.call(), RECOVERSSM_INVALID_ARGUMENT) << one.refused;
    EXPECT_EQ(std::string(recoverssm_last_error()).find(one.refused), 0U) << recoverssm_last_error() << ", not " << one.refused;
    EXPECT_TRUE(id == 77 || id == 0);
  }
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(number, -77);
  EXPECT_EQ(tokens, -77);
  recoverssm_session_destroy(nullptr);
  recoverssm_request_info_init(nullptr, sizeof info);
  // Nothing of all this reached the session.
  EXPECT_EQ(recoverssm_session_counters(s, &counts, nullptr), RECOVERSSM_OK);
  EXPECT_EQ(counts.refused_calls, 0);
  EXPECT_EQ(recoverssm_session_requests(s, &number), RECOVERSSM_OK);
  EXPECT_EQ(number, 1);
}

// call(struct) with the struct in every size.
template <class C>
void expect_versions(const char* name, const C& good, const std::function<int(C*)>& call) {
  SCOPED_TRACE(name);
  const auto answer = [&](std::size_t size, unsigned char rest) {
    const Resized<C> other(good, size, rest);
    return text_of(call(other.at));
  };
  EXPECT_EQ(answer(sizeof(C), 0), "ok");
  EXPECT_EQ(answer(sizeof(C) + 8, 0), "ok");
  EXPECT_EQ(answer(sizeof(C) + 96, 0), "ok");
  EXPECT_TRUE(says(answer(sizeof(C) + 96, 0x5A), "or zeros behind that: byte " + std::to_string(sizeof(C)) + " is set"))
      << answer(sizeof(C) + 96, 0x5A);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{4}, sizeof(C) + 4, sizeof(C) - 4, sizeof(C) + 4096 + 8, SIZE_MAX - 7}) {
    Resized<C> other(good, sizeof(C), 0);
    other.at->struct_size = size;
    EXPECT_TRUE(says(text_of(call(other.at)), ".struct_size: " + std::to_string(size) + ", expected ")) << size;
  }
  // Older: the end of a field is a version.
  for (std::size_t size = sizeof(std::size_t); size < sizeof(C); size += sizeof(std::size_t)) {
    EXPECT_FALSE(says(answer(size, 0x5A), "zeros behind")) << size;
  }
  EXPECT_FALSE(says(answer(sizeof(std::size_t), 0x5A), "struct_size"));
}

TEST_F(SessionAbi, VersionsOfStructsItReads) {
  const auto create = [](recoverssm_session_config* config, recoverssm_layer_pool* pools, std::size_t count) {
    recoverssm_session* session = nullptr;
    const int status = recoverssm_session_create(config, pools, count, &session);
    recoverssm_session_destroy(session);
    return status;
  };
  expect_versions<recoverssm_session_config>("session_config", config_.config,
                                             [&](recoverssm_session_config* config) { return create(config, nullptr, 0); });
  recoverssm_session_config one_layer = config_.config;
  one_layer.layer_count = 1;
  expect_versions<recoverssm_layer_config>("layer_config", config_.layers[0], [&](recoverssm_layer_config* layer) {
    one_layer.layers = layer;
    return create(&one_layer, nullptr, 0);
  });
  recoverssm_session_config one_group = config_.config;
  expect_versions<recoverssm_group_config>("group_config", config_.groups[0], [&](recoverssm_group_config* group) {
    one_group.groups = group;
    return create(&one_group, nullptr, 0);
  });
  recoverssm_layer_pool pool;
  recoverssm_records records;
  recoverssm_layer_pool_init(&pool, sizeof pool);
  recoverssm_records_init(&records, sizeof records);
  ASSERT_EQ(recoverssm_session_pool(session(), 0, &pool, &records), RECOVERSSM_OK);
  one_layer.layers = config_.layers.data();
  expect_versions<recoverssm_layer_pool>("layer_pool", pool,
                                         [&](recoverssm_layer_pool* given) { return create(&one_layer, given, 1); });

  const recoverssm_step_row row{request_, 0, 0, RECOVERSSM_ROW_PREFILL, 1, 0};
  const auto in_step = [&](auto&& call) {
    std::uint64_t step = 0;
    EXPECT_EQ(recoverssm_session_open_step(session(), &row, 1, context(), &step), RECOVERSSM_OK) << recoverssm_last_error();
    const int status = call(step);
    const std::string error = recoverssm_last_error();
    EXPECT_EQ(recoverssm_session_abandon(session(), step), RECOVERSSM_OK);
    EXPECT_EQ(recoverssm_session_preempt(session(), request_), RECOVERSSM_OK);
    return status;
  };
  twin_.c_model.inputs(1, 1);
  const DeltaInputs delta = twin_.c_model.delta(0);
  recoverssm_delta_inputs inputs;
  recoverssm_delta_inputs_init(&inputs, sizeof inputs);
  inputs.x = c_tensor(delta.x), inputs.a = c_tensor(delta.a), inputs.b = c_tensor(delta.b), inputs.out = c_tensor(delta.out);
  expect_versions<recoverssm_delta_inputs>("delta_inputs", inputs, [&](recoverssm_delta_inputs* given) {
    return in_step([&](std::uint64_t step) { return recoverssm_session_forward_delta(session(), step, 0, given, context()); });
  });
  const ShortConvInputs conv = twin_.c_model.short_conv();
  recoverssm_short_conv_inputs conv_inputs;
  recoverssm_short_conv_inputs_init(&conv_inputs, sizeof conv_inputs);
  conv_inputs.x = c_tensor(conv.x), conv_inputs.residual = c_tensor(conv.residual);
  expect_versions<recoverssm_short_conv_inputs>("short_conv_inputs", conv_inputs, [&](recoverssm_short_conv_inputs* given) {
    return in_step([&](std::uint64_t step) { return recoverssm_session_forward_short_conv(session(), step, 2, given, context()); });
  });
}

TEST_F(SessionAbi, VersionsOfStructsItWrites) {
  const auto bytes = checkpoint();
  const auto fresh = []<class C>(C value, void (*init)(C*, std::size_t)) {
    init(&value, sizeof value);
    return value;
  };
  expect_versions<recoverssm_request_info>(
      "request_info", fresh(recoverssm_request_info{}, recoverssm_request_info_init),
      [&](recoverssm_request_info* info) { return recoverssm_session_info(session(), request_, info); });
  expect_versions<recoverssm_block_tag>(
      "block_tag", fresh(recoverssm_block_tag{}, recoverssm_block_tag_init),
      [&](recoverssm_block_tag* tag) { return recoverssm_session_block_tag(session(), 0, 1, tag); });
  expect_versions<recoverssm_layer_pool>(
      "layer_pool", fresh(recoverssm_layer_pool{}, recoverssm_layer_pool_init),
      [&](recoverssm_layer_pool* pool) { return recoverssm_session_pool(session(), 0, pool, nullptr); });
  recoverssm_layer_pool pool = fresh(recoverssm_layer_pool{}, recoverssm_layer_pool_init);
  expect_versions<recoverssm_records>(
      "records", fresh(recoverssm_records{}, recoverssm_records_init),
      [&](recoverssm_records* records) { return recoverssm_session_pool(session(), 0, &pool, records); });
  expect_versions<recoverssm_session_counts>(
      "session_counts", fresh(recoverssm_session_counts{}, recoverssm_session_counts_init),
      [&](recoverssm_session_counts* counts) { return recoverssm_session_counters(session(), counts, nullptr); });
  recoverssm_session_counts counts = fresh(recoverssm_session_counts{}, recoverssm_session_counts_init);
  expect_versions<recoverssm_counters>(
      "counters", fresh(recoverssm_counters{}, recoverssm_counters_init),
      [&](recoverssm_counters* traffic) { return recoverssm_session_counters(session(), &counts, traffic); });
  expect_versions<recoverssm_session_memory>(
      "session_memory", fresh(recoverssm_session_memory{}, recoverssm_session_memory_init),
      [&](recoverssm_session_memory* memory) { return recoverssm_session_sizes(&config_.config, memory, nullptr, nullptr); });
  expect_versions<recoverssm_checkpoint_info>(
      "checkpoint_info", fresh(recoverssm_checkpoint_info{}, recoverssm_checkpoint_info_init),
      [&](recoverssm_checkpoint_info* info) { return recoverssm_checkpoint_inspect(bytes.data(), bytes.size(), info); });

  // What an older caller does not know is not written.
  recoverssm_checkpoint_info info = fresh(recoverssm_checkpoint_info{}, recoverssm_checkpoint_info_init);
  info.struct_size = offsetof(recoverssm_checkpoint_info, owner);
  info.owner = 77, info.layout[0] = 'x';
  ASSERT_EQ(recoverssm_checkpoint_inspect(bytes.data(), bytes.size(), &info), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_EQ(info.tokens, 3);
  EXPECT_EQ(info.tag, 9U);
  EXPECT_EQ(info.owner, 77U);
  EXPECT_EQ(info.layout[0], 'x');
  info.struct_size = sizeof info;
  info.layout[0] = '\0';
  ASSERT_EQ(recoverssm_checkpoint_inspect(bytes.data(), bytes.size(), &info), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_STREQ(info.layout, "gdn_f32+kda_act");
  EXPECT_EQ(info.version, RECOVERSSM_CHECKPOINT_VERSION + 0U);
  EXPECT_EQ(info.bytes, static_cast<std::int64_t>(bytes.size()));
  EXPECT_EQ(info.layers, 3);
}

TEST_F(SessionAbi, ElementsOfLists) {
  config_.layers[1].struct_size -= 8;
  recoverssm_session* made = nullptr;
  EXPECT_EQ(text_of(recoverssm_session_create(&config_.config, nullptr, 0, &made)),
            "session_create: layers[1].struct_size: " + std::to_string(sizeof(recoverssm_layer_config) - 8) + ", expected " +
                std::to_string(sizeof(recoverssm_layer_config)) + ", as layers[0] has");
  config_.layers[1].struct_size += 8;
  config_.layers[2].l2norm = 2;
  EXPECT_EQ(text_of(recoverssm_session_create(&config_.config, nullptr, 0, &made)),
            "session_create: layers[2].l2norm: 2, expected 0 or 1");
  config_.layers[2].l2norm = 1;
  config_.layers[2].kind = 300;
  EXPECT_EQ(text_of(recoverssm_session_create(&config_.config, nullptr, 0, &made)),
            "session_create: layers[2].kind: value 300, expected one of the constants");
  config_.layers[2].kind = RECOVERSSM_LAYER_SHORT_CONV;
  config_.groups[0].reserved = 1;
  EXPECT_EQ(text_of(recoverssm_session_create(&config_.config, nullptr, 0, &made)),
            "session_create: groups[0].reserved: 1, expected 0");
  config_.groups[0].reserved = 0;
  std::vector<recoverssm_layer_pool> pools(3);
  for (recoverssm_layer_pool& pool : pools) recoverssm_layer_pool_init(&pool, sizeof pool);
  recoverssm_records records;
  recoverssm_records_init(&records, 3);
  records.struct_size = 3;
  pools[1].records = &records;
  EXPECT_EQ(text_of(recoverssm_session_create(&config_.config, pools.data(), 3, &made)),
            "session_create: pools[1].records.struct_size: 3, expected " + std::to_string(sizeof records) +
                ", which its init function sets");
  EXPECT_EQ(made, nullptr);
}

TEST_F(SessionAbi, PlainStructs) {
  const recoverssm_step_row good{request_, 0, 0, RECOVERSSM_ROW_PREFILL, 1, 0};
  recoverssm_step_row rows[2] = {good, good};
  rows[1].request = 0;
  std::uint64_t step = 0;
  const auto refused = [&] { return text_of(recoverssm_session_open_step(session(), rows, 2, context(), &step)); };
  const auto spoilt = [&](auto recoverssm_step_row::*field, auto value) {
    const recoverssm_step_row before = rows[1];
    rows[1].*field = value;
    const std::string text = refused();
    rows[1] = before;
    return text;
  };
  EXPECT_EQ(spoilt(&recoverssm_step_row::reserved, 1), "session_open_step: rows[1].reserved: 1, expected 0");
  EXPECT_EQ(spoilt(&recoverssm_step_row::kind, 300), "session_open_step: rows[1].kind: 300, expected one of the constants");
  EXPECT_EQ(spoilt(&recoverssm_step_row::kind, -1), "session_open_step: rows[1].kind: -1, expected one of the constants");
  EXPECT_EQ(spoilt(&recoverssm_step_row::has_num_computed, 2), "session_open_step: rows[1].has_num_computed: 2, expected 0 or 1");
  rows[1].has_num_computed = 1;
  EXPECT_EQ(spoilt(&recoverssm_step_row::num_computed, -1), "session_open_step: rows[1].num_computed: -1, expected 0 or more");
  rows[1].has_num_computed = 0;
  EXPECT_NE(spoilt(&recoverssm_step_row::kind, 3), "ok");  // the session's own check
  EXPECT_EQ(text_of(recoverssm_session_open_step(session(), rows, 1048577, context(), &step)),
            "session_open_step: rows: 1048577 entries, expected at most 1048576");
  EXPECT_EQ(refused(), "ok");
  const recoverssm_accepted accepted{request_, 1, 5};
  EXPECT_EQ(text_of(recoverssm_session_commit(session(), step, &accepted, 1, context())),
            "session_commit: accepted[0].reserved: 5, expected 0");
  EXPECT_EQ(recoverssm_session_abandon(session(), step), RECOVERSSM_OK);
}

TEST_F(SessionAbi, RoomForResults) {
  auto bytes = checkpoint();
  ASSERT_EQ(recoverssm_session_restore(session(), request_, bytes.data(), bytes.size(), 3, 9), RECOVERSSM_OK)
      << recoverssm_last_error();
  std::size_t size = 0;
  ASSERT_EQ(recoverssm_session_export_checkpoint(session(), request_, 3, 9, context(), nullptr, 0, &size), RECOVERSSM_OK);
  EXPECT_EQ(size, bytes.size());
  std::vector<std::byte> small(size - 1, std::byte{7});
  EXPECT_EQ(text_of(recoverssm_session_export_checkpoint(session(), request_, 3, 9, context(), small.data(), small.size(), &size)),
            "session_export_checkpoint: checkpoint: capacity " + std::to_string(bytes.size() - 1) + ", expected at least " +
                std::to_string(bytes.size()) + " bytes");
  EXPECT_EQ(size, bytes.size());
  EXPECT_EQ(small, std::vector<std::byte>(bytes.size() - 1, std::byte{7}));

  const std::string path = ::testing::TempDir() + "recoverssm-c-" + std::to_string(getpid()) + ".ckpt";
  ASSERT_EQ(recoverssm_checkpoint_write(path.c_str(), bytes.data(), bytes.size()), RECOVERSSM_OK) << recoverssm_last_error();
  ASSERT_EQ(recoverssm_checkpoint_read(path.c_str(), nullptr, 0, &size), RECOVERSSM_OK) << recoverssm_last_error();
  EXPECT_EQ(size, bytes.size());
  EXPECT_EQ(recoverssm_checkpoint_read(path.c_str(), small.data(), small.size(), &size), RECOVERSSM_INVALID_ARGUMENT);
  EXPECT_EQ(size, bytes.size());
  EXPECT_EQ(small, std::vector<std::byte>(bytes.size() - 1, std::byte{7}));
  std::vector<std::byte> read(size + 5);
  ASSERT_EQ(recoverssm_checkpoint_read(path.c_str(), read.data(), read.size(), &size), RECOVERSSM_OK) << recoverssm_last_error();
  read.resize(size);
  EXPECT_EQ(read, bytes);
  std::remove(path.c_str());
  EXPECT_EQ(recoverssm_checkpoint_read(path.c_str(), read.data(), read.size(), &size), RECOVERSSM_DEVICE_ERROR);
  EXPECT_TRUE(says(recoverssm_last_error(), "No such file")) << recoverssm_last_error();
  EXPECT_EQ(size, 0U);
  EXPECT_EQ(recoverssm_checkpoint_write("/nowhere/at/all", bytes.data(), bytes.size()), RECOVERSSM_DEVICE_ERROR);
  EXPECT_EQ(recoverssm_checkpoint_write(path.c_str(), bytes.data(), bytes.size() - 1), RECOVERSSM_INVALID_ARGUMENT);
}

// A context has no threads in a forked child; the session itself goes on there with a context of the child's own.
TEST_F(SessionAbi, AfterAFork) {
  const recoverssm_step_row row{request_, 0, 0, RECOVERSSM_ROW_PREFILL, 1, 0};
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    int wrong = 0;
    std::uint64_t step = 77;
    if (recoverssm_session_open_step(session(), &row, 1, context(), &step) != RECOVERSSM_BAD_STATE || step != 0) wrong |= 1;
    recoverssm_context* own = nullptr;
    if (recoverssm_context_create(1, &own) != RECOVERSSM_OK) wrong |= 2;
    if (recoverssm_session_open_step(session(), &row, 1, own, &step) != RECOVERSSM_OK) wrong |= 4;
    recoverssm_session_destroy(session());
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Handles of one session mean nothing in another, and no call after destroy is needed to close what is open.
TEST_F(SessionAbi, DestroyWithOpenSteps) {
  const recoverssm_step_row row{request_, 0, 0, RECOVERSSM_ROW_PREFILL, 1, 0};
  std::uint64_t step = 0;
  ASSERT_EQ(recoverssm_session_open_step(session(), &row, 1, context(), &step), RECOVERSSM_OK);
  Twin other({.blocks = 4});
  EXPECT_EQ(recoverssm_session_abandon(other.c, step), RECOVERSSM_BAD_STATE);
}

TEST(SessionFields, AreAllPaired) {
  EXPECT_FIELDS(recoverssm_layer_config, LayerConfig, kind, group, H, HV, K, V, W, channels, dilation, activation, state, weight,
                bias, conv_activation, A_log, dt_bias, lower_bound, scale, l2norm, softplus_beta, softplus_threshold)
  EXPECT_FIELDS(recoverssm_group_config, GroupConfig, blocks, block_size)
  EXPECT_FIELDS(recoverssm_session_config, SessionConfig, layers, groups, window_capacity, line_kind, lazy, null_block_id,
                kept_boundaries, backend, stream)
  EXPECT_FIELDS(recoverssm_layer_pool, LayerPool, line, state, records, pending)
  EXPECT_FIELDS_BUT(recoverssm_session_memory, SessionSizes, "layers, block", layers, block, blocks_per_request, request, pools,
                    checkpoint)
  EXPECT_FIELDS(recoverssm_delta_inputs, DeltaInputs, x, a, b, out)
  EXPECT_FIELDS(recoverssm_short_conv_inputs, ShortConvInputs, x, residual, outer_residual)
  EXPECT_FIELDS_BUT(recoverssm_request_info, RequestInfo, "blocks", phase, tokens, waiting, open_step, blocks)
  EXPECT_FIELDS(recoverssm_block_tag, BlockTag, owner, tokens, step, references, layout)
  EXPECT_FIELDS_BUT(recoverssm_session_counts, SessionCounters, "traffic", steps_opened, steps_committed, steps_abandoned,
                    prefill_rows, decode_rows, window_rows, prefill_tokens, decode_tokens, verified_tokens, kept_tokens,
                    library_calls, grouped_calls, per_group_calls, per_group_reason, folded_rows, moved_rows, dead_rows,
                    refused_calls, refused_by_kind, last_refusal, traffic)
  EXPECT_FIELDS(recoverssm_checkpoint_info, CheckpointInfo, version, tokens, tag, owner, step, layers, layout, bytes)
  // The plain structs: rows and counts are converted by hand in src/c_api/session.cc.
  const auto row = [](const StepRow& value) { [[maybe_unused]] const auto& [request, kind, tokens, num_computed] = value; };
  const auto accepted = [](const Accepted& value) { [[maybe_unused]] const auto& [request, count] = value; };
  const auto layer = [](const SessionSizes::Layer& value) { [[maybe_unused]] const auto& [state, line, records, pending] = value; };
  row({}), accepted({}), layer({});
}

}  // namespace
}  // namespace c_api_tests
