/* recoverssm, C ABI of sessions: the keeper of blocks, steps and checkpoints for engines that have no bookkeeping of their own. C11 and
 * C++20. How to use it: docs/sessions.md; from C: docs/c-api.md#sessions, examples/c/session.c. The same functions, results and error
 * texts as recoverssm/session.hpp, whose comments hold here as well.
 *
 *   recoverssm_session_create(&config, NULL, 0, &session);
 *   recoverssm_session_admit(session, &request);
 *   recoverssm_session_open_step(session, rows, row_count, context, &step);  any mix of prefill, decode and windows
 *   recoverssm_session_forward_delta(session, step, layer, &inputs, context);  once for every layer
 *   recoverssm_session_commit(session, step, accepted, accepted_count, context);  kept tokens per request
 *   recoverssm_session_finish(session, request);
 *   recoverssm_session_destroy(session);
 *
 * The rules of recoverssm.h hold: status ints and recoverssm_last_error, struct_size, reserved fields 0, no exception leaves. Beyond them:
 *
 * Errors. After a refused call nothing has changed: no block, count, step or byte of a request's state, and what waited still waits.
 * What a function would have written to is left alone, but for handles and sizes, which are 0 then. A null argument is refused, where
 * the comment does not say that it may be null.
 * RECOVERSSM_OUT_OF_MEMORY: the session's own books could not grow; finish and destroy are still good.
 *
 * Arrays. Rows, accepted counts and layer sizes come in bulk: they are plain structs without struct_size, which grow into reserved (0).
 * At most 1048576 entries. A null array with count 0 is an empty one.
 *
 * Room. Where the caller gives an array and its capacity, at most capacity entries are written and *count is the number there is; a null
 * array with capacity 0 only asks.
 *
 * Memory. A session keeps the data pointers of its configuration (weights, bias, A_log, dt_bias) and of the pools it was given: they must
 * outlive it. All other memory is the caller's again when the call returns. Unlike operations, the functions of a session may allocate.
 *
 * Threads. One thread at a time for each session, and for each context. Different sessions are independent. After fork a child may go on
 * with its copy of a session whose pools are private memory, with a context that it made itself; a context of another process is refused.
 *
 * Handles (requests, steps, prefixes) are never 0 and never reused within a session: a stale one is refused. */
#ifndef RECOVERSSM_SESSION_H
#define RECOVERSSM_SESSION_H

#include <recoverssm/recoverssm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Constants. The fields that hold them are int32_t. */

enum { RECOVERSSM_LAYER_GDN = 0, RECOVERSSM_LAYER_KDA = 1, RECOVERSSM_LAYER_SHORT_CONV = 2 };

enum {                             /* row kinds */
       RECOVERSSM_ROW_PREFILL = 0, /* a chunk of a prompt, any length; starts from zero if the request has no tokens yet */
       RECOVERSSM_ROW_DECODE = 1,  /* one token, kept for certain */
       RECOVERSSM_ROW_WINDOW = 2   /* the last sampled token, then the drafts: 0..S tokens, of which a prefix is kept */
};

enum {                             /* phases of a request */
       RECOVERSSM_PHASE_EMPTY = 0, /* no state: admitted or preempted. Next: a prefill row, or restore */
       RECOVERSSM_PHASE_LIVE = 1,  /* a state after `tokens` tokens */
       RECOVERSSM_PHASE_DEAD = 2   /* the state is lost. Next: preempt, restore or finish */
};

/* One layer. Sizes need no tensor, a session needs A_log and dt_bias of kda layers (commit reads them), a forward needs all. */
typedef struct recoverssm_layer_config {
  size_t struct_size;
  recoverssm_tensor weight;  /* [C, W] T or f32 */
  recoverssm_tensor bias;    /* optional [C] T or f32; gdn, kda */
  recoverssm_tensor A_log;   /* [HV] T or f32; gdn, kda */
  recoverssm_tensor dt_bias; /* gdn [HV], kda [HV, K]; T or f32 */
  int32_t kind;              /* RECOVERSSM_LAYER_ */
  int32_t group;
  int32_t H, HV, K, V;     /* gdn, kda */
  int32_t W;               /* conv taps; gdn, kda: 0 for a layer without convolution; short_conv: Kc */
  int32_t channels;        /* short_conv: C; gdn, kda: 0, it is 2*H*K + HV*V */
  int32_t dilation;        /* short_conv, default 1 */
  int32_t activation;      /* dtype T, default bf16 */
  int32_t state;           /* dtype, default f32 */
  int32_t conv_activation; /* RECOVERSSM_ACTIVATION_, default silu */
  int32_t has_lower_bound; /* kda only: selects the bounded gate */
  float lower_bound;       /* < 0 */
  int32_t has_scale;
  float scale;              /* default fp32(1/sqrt(double(K))) */
  int32_t l2norm;           /* default 1 */
  float softplus_beta;      /* default 1 */
  float softplus_threshold; /* default 20 */
  int32_t reserved;
} recoverssm_layer_config;

/* Layers that share block ids. */
typedef struct recoverssm_group_config {
  size_t struct_size;
  int32_t blocks;         /* of the pool, ids 0..blocks-1; those <= null_block_id are never handed out */
  int32_t has_block_size; /* align mode. In all groups or in none */
  int32_t block_size;     /* B >= S tokens a block of the prefix cache */
  int32_t reserved;
} recoverssm_group_config;

typedef struct recoverssm_session_config {
  size_t struct_size;
  const recoverssm_layer_config* layers;
  size_t layer_count;
  const recoverssm_group_config* groups;
  size_t group_count;
  int32_t window_capacity; /* S = 1 + the most drafts, default 1 */
  int32_t line_kind;       /* RECOVERSSM_LINE_, default anchored: a window can be undone; rolled: one position shorter */
  int32_t lazy;            /* commit only records counts, the next step folds; default 0 */
  int32_t null_block_id;   /* default 0 */
  int32_t kept_boundaries; /* align mode: prefix boundaries a request keeps behind its running block, default 1 */
  int32_t backend;         /* RECOVERSSM_BACKEND_, default cpu: where pools and all tensors are; contexts must be of it too */
  void* stream;            /* cuda: a cudaStream_t that all is put on and that outlives the session; null: the default stream */
} recoverssm_session_config;

/* The tensors of one layer, as the operations take them; pools may be interleaved. */
typedef struct recoverssm_layer_pool {
  size_t struct_size;
  recoverssm_tensor line;            /* [blocks, cols, C] T; W > 0 */
  recoverssm_tensor state;           /* [blocks, HV, V, K]; gdn, kda */
  recoverssm_tensor pending;         /* [blocks] int32; lazy */
  const recoverssm_records* records; /* gdn, kda; null: none */
} recoverssm_layer_pool;

/* Memory, in bytes but for blocks_per_request. */
typedef struct recoverssm_session_memory {
  size_t struct_size;
  int64_t request;            /* of one request, at most, over all groups */
  int64_t pools;              /* all blocks of all groups */
  int64_t checkpoint;         /* an exported request */
  int32_t blocks_per_request; /* at most, in every group: 1, or in align mode 2 + kept_boundaries */
  int32_t reserved;
} recoverssm_session_memory;

/* Bytes of one layer in one block. Plain. */
typedef struct recoverssm_layer_memory {
  int64_t state, line, records, pending;
  int64_t reserved[4];
} recoverssm_layer_memory;

/* One row of a step; its tokens follow those of the row before it, in every tensor of the forward. Plain. */
typedef struct recoverssm_step_row {
  uint64_t request;         /* 0: padding, a row of no request; its outputs are 0 */
  int64_t num_computed;     /* the caller's own count of tokens before this row: another than the session's is refused */
  int32_t has_num_computed; /* 0: num_computed is not compared */
  int32_t kind;             /* RECOVERSSM_ROW_ */
  int32_t tokens;
  int32_t reserved;
} recoverssm_step_row;

/* Kept tokens of a request's window, the first token included. Clamped to 0..L; negative counts as 0. Plain. */
typedef struct recoverssm_accepted {
  uint64_t request;
  int32_t count;
  int32_t reserved;
} recoverssm_accepted;

/* Tensors of one layer's forward, rows in step order: n >= the step's tokens; token strides free. */
typedef struct recoverssm_delta_inputs { /* gdn, kda */
  size_t struct_size;
  recoverssm_tensor x;   /* [n, 2*H*K + HV*V] T: q | k | v before the convolution (W = 0: as they enter the rule) */
  recoverssm_tensor a;   /* gdn [n, HV] T, kda [n, HV, K] T */
  recoverssm_tensor b;   /* [n, HV] T */
  recoverssm_tensor out; /* [n, HV, V] T or f32, written */
} recoverssm_delta_inputs;

typedef struct recoverssm_short_conv_inputs {
  size_t struct_size;
  recoverssm_tensor x;              /* [n, C] T */
  recoverssm_tensor residual;       /* [n, C] T, written */
  recoverssm_tensor outer_residual; /* optional [n, C] T */
} recoverssm_short_conv_inputs;

typedef struct recoverssm_request_info {
  size_t struct_size;
  int64_t tokens;     /* committed, waiting ones included */
  uint64_t open_step; /* 0: none */
  int32_t phase;      /* RECOVERSSM_PHASE_ */
  int32_t waiting;    /* lazy: kept tokens whose records wait in the block */
} recoverssm_request_info;

/* What a block holds. */
typedef struct recoverssm_block_tag {
  size_t struct_size;
  uint64_t owner;     /* who wrote it last; 0: never used */
  int64_t tokens;     /* tokens in its state; -1: being written by an open step, or scratch */
  uint64_t step;      /* the step that wrote it last; 0: none (restored, copied) */
  int32_t references; /* requests and prefixes that hold it; 0: free */
  int32_t reserved;
  char layout[64]; /* record layout ids of the group's layers: "gdn_f32", "kda_act", "gdn_f32+kda_act", or "" (short_conv only) */
} recoverssm_block_tag;

/* What happened since the session was made. Texts are cut to what fits. */
typedef struct recoverssm_session_counts {
  size_t struct_size;
  int64_t steps_opened, steps_committed, steps_abandoned;
  /* Of committed steps, without padding and without rows of requests freed meanwhile. */
  int64_t prefill_rows, decode_rows, window_rows;
  int64_t prefill_tokens, decode_tokens;
  int64_t verified_tokens; /* of windows */
  int64_t kept_tokens;     /* of windows */
  int64_t library_calls;   /* operations run */
  int64_t grouped_calls;   /* commits whose groups were planned and advanced by one set of calls */
  int64_t per_group_calls; /* commits planned and advanced group by group */
  int64_t folded_rows;     /* rows whose waiting records were folded outside a forward */
  int64_t moved_rows;      /* states copied from block to block: align mode, forks, prefixes */
  int64_t dead_rows;       /* requests that lost their state */
  int64_t refused_calls;   /* calls that the session refused; what this interface refuses before it asks the session is not in it */
  int64_t refused_by_kind[6]; /* index: status, 0 to RECOVERSSM_DEVICE_ERROR */
  char per_group_reason[256]; /* of the last one */
  char last_refusal[256];
} recoverssm_session_counts;

typedef struct recoverssm_checkpoint_info {
  size_t struct_size;
  int64_t tokens; /* in the state */
  uint64_t tag;   /* the caller's */
  uint64_t owner; /* request id in the session that exported it */
  uint64_t step;  /* the step that wrote the state there; 0: none */
  int64_t bytes;
  uint32_t version;
  int32_t layers;
  char layout[64]; /* record layout ids of its layers, as in recoverssm_block_tag */
} recoverssm_checkpoint_info;

/* Defaults. size: sizeof in the caller. */
RECOVERSSM_API void recoverssm_layer_config_init(recoverssm_layer_config* layer, size_t size);
RECOVERSSM_API void recoverssm_group_config_init(recoverssm_group_config* group, size_t size);
RECOVERSSM_API void recoverssm_session_config_init(recoverssm_session_config* config, size_t size);
RECOVERSSM_API void recoverssm_layer_pool_init(recoverssm_layer_pool* pool, size_t size);
RECOVERSSM_API void recoverssm_session_memory_init(recoverssm_session_memory* memory, size_t size);
RECOVERSSM_API void recoverssm_delta_inputs_init(recoverssm_delta_inputs* inputs, size_t size);
RECOVERSSM_API void recoverssm_short_conv_inputs_init(recoverssm_short_conv_inputs* inputs, size_t size);
RECOVERSSM_API void recoverssm_request_info_init(recoverssm_request_info* info, size_t size);
RECOVERSSM_API void recoverssm_block_tag_init(recoverssm_block_tag* tag, size_t size);
RECOVERSSM_API void recoverssm_session_counts_init(recoverssm_session_counts* counts, size_t size);
RECOVERSSM_API void recoverssm_checkpoint_info_init(recoverssm_checkpoint_info* info, size_t size);

/* What a configuration takes. layers: null, or room for layer_count; group_blocks: null, or room for group_count: bytes of one block of
 * each group. */
RECOVERSSM_API int recoverssm_session_sizes(const recoverssm_session_config* config, recoverssm_session_memory* memory,
                                            recoverssm_layer_memory* layers, int64_t* group_blocks);

/* ---- the session ---- */

typedef struct recoverssm_session recoverssm_session;

/* With pools of its own (null, 0), or with the caller's: one a layer. Pending counts are set to 0. *session is null if refused. */
RECOVERSSM_API int recoverssm_session_create(const recoverssm_session_config* config, const recoverssm_layer_pool* pools,
                                             size_t pool_count, recoverssm_session** session);
RECOVERSSM_API void recoverssm_session_destroy(recoverssm_session* session); /* null: does nothing */

/* ---- requests ---- */

RECOVERSSM_API int recoverssm_session_admit(recoverssm_session* session, uint64_t* request);
/* Continues from a held state. Takes blocks where the state must be copied (a prefix that ends inside a block). */
RECOVERSSM_API int recoverssm_session_admit_prefix(recoverssm_session* session, uint64_t prefix, recoverssm_context* context,
                                                   uint64_t* request);
/* Frees everything of the request. Its row in an open step becomes dead; its blocks are free once that step is closed. */
RECOVERSSM_API int recoverssm_session_finish(recoverssm_session* session, uint64_t request);
/* The same, and keeps its final state, folded, as a prefix: for a next turn. */
RECOVERSSM_API int recoverssm_session_finish_and_hold(recoverssm_session* session, uint64_t request, recoverssm_context* context,
                                                      uint64_t* prefix);
/* Frees the state and keeps the request, empty. To resume: prefill from the first token, or restore. */
RECOVERSSM_API int recoverssm_session_preempt(recoverssm_session* session, uint64_t request);
RECOVERSSM_API int recoverssm_session_info(const recoverssm_session* session, uint64_t request, recoverssm_request_info* info);
/* Per group: block of the running state, null_block_id where there is none. */
RECOVERSSM_API int recoverssm_session_blocks(const recoverssm_session* session, uint64_t request, int32_t* blocks, size_t capacity,
                                             size_t* count);

/* ---- steps ---- */
/* A step owns its index data. Several may be open at once and are closed (committed or abandoned) in any order; a request has a row in
 * at most one. */

/* *fits: 1 if open_step would find the blocks it needs, else 0. */
RECOVERSSM_API int recoverssm_session_fits(const recoverssm_session* session, const recoverssm_step_row* rows, size_t row_count,
                                           int32_t* fits);
RECOVERSSM_API int recoverssm_session_open_step(recoverssm_session* session, const recoverssm_step_row* rows, size_t row_count,
                                                recoverssm_context* context, uint64_t* step);
/* Each layer once a step, in any order. */
RECOVERSSM_API int recoverssm_session_forward_delta(recoverssm_session* session, uint64_t step, int32_t layer,
                                                    const recoverssm_delta_inputs* inputs, recoverssm_context* context);
RECOVERSSM_API int recoverssm_session_forward_short_conv(recoverssm_session* session, uint64_t step, int32_t layer,
                                                         const recoverssm_short_conv_inputs* inputs, recoverssm_context* context);
/* One count for every window with tokens, in any order; counts of other requests of this step are not read. Requests finished or
 * preempted since are dead, with or without a count. Every layer must have run. */
RECOVERSSM_API int recoverssm_session_commit(recoverssm_session* session, uint64_t step, const recoverssm_accepted* accepted,
                                             size_t accepted_count, recoverssm_context* context);
/* Closes a step without keeping anything. If no layer has run, all requests are as before. Else so are eager windows on anchored lines;
 * all others (plain tokens, rolled lines, lazy windows) become dead. */
RECOVERSSM_API int recoverssm_session_abandon(recoverssm_session* session, uint64_t step);

/* ---- states ---- */

/* Lazy: folds the waiting records of these requests now. Eager: nothing to do. */
RECOVERSSM_API int recoverssm_session_materialize(recoverssm_session* session, const uint64_t* requests, size_t request_count,
                                                  recoverssm_context* context);
/* Token counts whose state exists in every group, ascending: the current count and, in align mode, the kept boundaries. Empty for a
 * request without state or with a row in an open step. While records wait, neither the current count nor a boundary inside them is listed. */
RECOVERSSM_API int recoverssm_session_exportable(const recoverssm_session* session, uint64_t request, int64_t* tokens,
                                                 size_t capacity, size_t* count);
/* A second request with the same state and count. Folds first. */
RECOVERSSM_API int recoverssm_session_fork(recoverssm_session* session, uint64_t request, recoverssm_context* context,
                                           uint64_t* copy);
/* Keeps the state after `tokens` tokens, one of exportable after folding, beyond the request's life. A boundary is shared, any other
 * state copied. */
RECOVERSSM_API int recoverssm_session_hold(recoverssm_session* session, uint64_t request, int64_t tokens,
                                           recoverssm_context* context, uint64_t* prefix);
RECOVERSSM_API int recoverssm_session_release(recoverssm_session* session, uint64_t prefix);
RECOVERSSM_API int recoverssm_session_prefix_tokens(const recoverssm_session* session, uint64_t prefix, int64_t* tokens);

/* The state after `tokens` tokens as bytes. tag is the caller's, a hash of the text for instance. Folds first. With checkpoint null and
 * capacity 0, *size is the bytes it takes (recoverssm_session_memory's checkpoint) and nothing else happens, nothing is folded and the
 * request not looked at. A capacity below that is refused, and *size is what it takes then, too. */
RECOVERSSM_API int recoverssm_session_export_checkpoint(recoverssm_session* session, uint64_t request, int64_t tokens, uint64_t tag,
                                                        recoverssm_context* context, void* checkpoint, size_t capacity,
                                                        size_t* size);
/* Gives an empty or dead request the state of a checkpoint. Refused unless count and tag are the expected ones. */
RECOVERSSM_API int recoverssm_session_restore(recoverssm_session* session, uint64_t request, const void* checkpoint, size_t size,
                                              int64_t tokens, uint64_t tag);

/* ---- looking ---- */

RECOVERSSM_API int recoverssm_session_free_blocks(const recoverssm_session* session, int32_t group, int32_t* blocks);
RECOVERSSM_API int recoverssm_session_requests(const recoverssm_session* session, int32_t* requests);
RECOVERSSM_API int recoverssm_session_open_steps(const recoverssm_session* session, int32_t* steps);
RECOVERSSM_API int recoverssm_session_prefixes(const recoverssm_session* session, int32_t* prefixes);
RECOVERSSM_API int recoverssm_session_block_tag(const recoverssm_session* session, int32_t group, int32_t block,
                                                recoverssm_block_tag* tag);
/* The layer's tensors. records: null, or where its records go, which pool->records then points to. Layers without records: pool->records
 * is null and *records has absent tensors. */
RECOVERSSM_API int recoverssm_session_pool(const recoverssm_session* session, int32_t layer, recoverssm_layer_pool* pool,
                                           recoverssm_records* records);
/* traffic: null, or where the bytes of all operations go. */
RECOVERSSM_API int recoverssm_session_counters(const recoverssm_session* session, recoverssm_session_counts* counts,
                                               recoverssm_counters* traffic);

/* The longest prefix that may be used: at most attention_tokens, and in every group's list of token counts that have a real state: group
 * g has counts[g] of them at groups[g], in any order. 0 if there is none. */
RECOVERSSM_API int recoverssm_prefix_hit(int64_t attention_tokens, const int64_t* const* groups, const size_t* counts,
                                         size_t group_count, int64_t* tokens);

/* ---- checkpoints ---- */
/* One request's state as bytes, with conv histories, without waiting records: it fits every session with the same layers, whatever its
 * S, line kind, groups and block sizes. */

#define RECOVERSSM_CHECKPOINT_VERSION 1

/* RECOVERSSM_INVALID_ARGUMENT for bytes that are no whole, undamaged checkpoint, RECOVERSSM_UNSUPPORTED for another version. */
RECOVERSSM_API int recoverssm_checkpoint_inspect(const void* checkpoint, size_t size, recoverssm_checkpoint_info* info);
/* Writes a file so that `path` is at every moment either what it was before or the whole new checkpoint, also after a crash or a kill:
 * written beside it as `path`.PID.N.partial, flushed to the disk, renamed. RECOVERSSM_DEVICE_ERROR with the system's reason. */
RECOVERSSM_API int recoverssm_checkpoint_write(const char* path, const void* checkpoint, size_t size);
/* Reads a file that checkpoint_write wrote, whole, each time. With checkpoint null and capacity 0, only *size is set. A capacity below
 * it is refused, and *size is what it takes then, too. */
RECOVERSSM_API int recoverssm_checkpoint_read(const char* path, void* checkpoint, size_t capacity, size_t* size);

#ifdef __cplusplus
}
#endif

#endif
