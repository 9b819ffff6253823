/* recoverssm, C ABI. C11 and C++20. How to call it: docs/c-api.md. What each operation does: docs/operations.md.
 *
 * Every operation OP has a struct recoverssm_OP_params and six functions:
 *
 *   void recoverssm_OP_params_init(params, size)             defaults; size is sizeof *params in the caller
 *   int  recoverssm_OP_validate(params)                      shapes, strides, dtypes; reads no tensor
 *   int  recoverssm_OP_query_support(params)                 RECOVERSSM_OK, or RECOVERSSM_UNSUPPORTED with the reason as last error
 *   int  recoverssm_OP_query_support_on(params, backend)     the same of another backend than the CPU
 *   int  recoverssm_OP_workspace_size(params, launch, bytes) scratch memory that run needs; 0 bytes for params that are refused
 *   int  recoverssm_OP_run(params, launch)                   checks everything, then computes
 *
 * Errors. Every int is a RECOVERSSM_ status, 0 for success. recoverssm_last_error() is the text of the last call of this thread that
 * failed: "operation: argument: what was got, expected what was expected". A successful call leaves it alone. A refused run has written
 * nothing. A null params or launch is refused like any other wrong argument. No exception leaves the library.
 *
 * Versions. A struct starts with struct_size, which its init function sets; other structs are referred to by pointer, so that each
 * can grow by itself. New fields are only ever appended. A size from an older header: the fields past it take their defaults. A size
 * from a newer header: accepted if all bytes past what this library knows are zero, else refused. A size that ends inside a field is
 * refused. The elements of an array lie struct_size bytes apart and all have the same. Fields named reserved are 0.
 *
 * Memory. The library keeps no pointer beyond a call (a session does: session.h). A successful run allocates nothing, starts no thread and reads no environment;
 * what it converts lies in the workspace, too, so a call with layers or groups always needs one. The other functions may allocate. On
 * a device, where the workspace is device memory, it converts on its stack, and takes from the heap what is more than 64 KiB.
 *
 * Threads. All functions may be called by any number of threads at the same time, on different workspaces and on tensors that do not
 * overlap where one writes. A context is used by one thread at a time. The parallel_run of a launch must neither throw nor jump out.
 *
 * Fork. There is no global state: after fork the child may call everything. A context belongs to the process that made it: in a child
 * recoverssm_context_launch refuses it, a launch made from it before the fork runs in the calling thread alone, and destroy does
 * nothing. */
#ifndef RECOVERSSM_RECOVERSSM_H
#define RECOVERSSM_RECOVERSSM_H

#include <stddef.h>
#include <stdint.h>

#define RECOVERSSM_VERSION_MAJOR 0
#define RECOVERSSM_VERSION_MINOR 1
#define RECOVERSSM_VERSION_PATCH 0
#define RECOVERSSM_VERSION_NUMBER (RECOVERSSM_VERSION_MAJOR * 10000 + RECOVERSSM_VERSION_MINOR * 100 + RECOVERSSM_VERSION_PATCH)

#if defined(__GNUC__)
#define RECOVERSSM_API __attribute__((visibility("default")))
#else
#define RECOVERSSM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Constants. The fields that hold them are int32_t. */

enum { /* status */
       RECOVERSSM_OK = 0,
       RECOVERSSM_INVALID_ARGUMENT = 1, /* shape, stride, dtype, size, missing or surplus argument */
       RECOVERSSM_OUT_OF_RANGE = 2,     /* an index, offset or count */
       RECOVERSSM_UNSUPPORTED = 3,      /* this op, dtype or shape on this backend; query_support answers the same beforehand */
       RECOVERSSM_BAD_STATE = 4,        /* the call does not fit what happened before it */
       RECOVERSSM_DEVICE_ERROR = 5,     /* the device, its driver or the system failed */
       RECOVERSSM_OUT_OF_MEMORY = 6     /* never of a right run */
};

enum { /* dtype. Activations (T below) and states: f32, bf16, f16. Index data: i32. Flags: boolean, 1 byte. The rest is refused. */
       RECOVERSSM_F32 = 0,
       RECOVERSSM_BF16 = 1,
       RECOVERSSM_F16 = 2,
       RECOVERSSM_F64 = 3,
       RECOVERSSM_I32 = 4,
       RECOVERSSM_I64 = 5,
       RECOVERSSM_U8 = 6,
       RECOVERSSM_BOOLEAN = 7
};

enum { RECOVERSSM_TARGET_BEST = 0, RECOVERSSM_TARGET_PORTABLE = 1, RECOVERSSM_TARGET_AVX2 = 2, RECOVERSSM_TARGET_AVX512 = 3 };

/* Where operations run; all give the same bits. cuda: tensors and workspace are memory of the current device, a run puts its kernels on
 * the launch's stream and returns. docs/cuda.md. sycl: the same of a queue and its context. docs/sycl.md. */
enum { RECOVERSSM_BACKEND_CPU = 0, RECOVERSSM_BACKEND_CUDA = 1, RECOVERSSM_BACKEND_SYCL = 2 };

enum { /* operations as a device flag names them */
       RECOVERSSM_OP_SPLIT_PROJECTIONS = 1,
       RECOVERSSM_OP_CAUSAL_CONV1D = 2,
       RECOVERSSM_OP_CAUSAL_CONV1D_WINDOW = 3,
       RECOVERSSM_OP_GATED_DELTA_RULE = 4,
       RECOVERSSM_OP_GATED_DELTA_RULE_SNAPSHOTS = 5,
       RECOVERSSM_OP_GATED_DELTA_RULE_VERIFY = 6,
       RECOVERSSM_OP_COMMIT_PLAN = 7,
       RECOVERSSM_OP_COMMIT_PLAN_GROUPS = 8,
       RECOVERSSM_OP_COMMIT = 9,
       RECOVERSSM_OP_MATERIALIZE = 10,
       RECOVERSSM_OP_ALIGN_MOVE = 11,
       RECOVERSSM_OP_ALIGN_ADVANCE = 12,
       RECOVERSSM_OP_SHORT_CONV = 13,
       RECOVERSSM_OP_GDN_ATTENTION = 14
};

/* One decay a value head, or one a key channel. */
enum { RECOVERSSM_GATE_GDN = 0, RECOVERSSM_GATE_KDA = 1 };

/* How a conv line holds its history: plain is short_conv's alone; rolled moves it with every window; anchored keeps it in front. */
enum { RECOVERSSM_LINE_PLAIN = 0, RECOVERSSM_LINE_ROLLED = 1, RECOVERSSM_LINE_ANCHORED = 2 };

enum { RECOVERSSM_ACTIVATION_NONE = 0, RECOVERSSM_ACTIVATION_SILU = 1 };

/* Packed projection rows. interleaved: per q/k head [q K | k K | v r*V | z r*V] and [b r | a r], r = HV/H.
 * flat: [q H*K | k H*K | v HV*V | z HV*V] and [b HV | a HV]. */
enum { RECOVERSSM_LAYOUT_INTERLEAVED = 0, RECOVERSSM_LAYOUT_FLAT = 1 };

enum { RECOVERSSM_WINDOW_SNAPSHOTS = 0, RECOVERSSM_WINDOW_VERIFY = 1 };

#define RECOVERSSM_MAX_DIMS 4
#define RECOVERSSM_WORKSPACE_ALIGNMENT 64

/* A strided view of the caller's memory. Shape and strides count elements. Absent, which leaves an optional argument out: dims < 0, or
 * dims 0 with a null data pointer (a zeroed struct). The one struct without a size: it is embedded everywhere, and grows into reserved. */
typedef struct recoverssm_tensor {
  void* data;
  int32_t dtype;
  int32_t dims;
  int64_t shape[RECOVERSSM_MAX_DIMS];
  int64_t stride[RECOVERSSM_MAX_DIMS];
  int64_t reserved[2];
} recoverssm_tensor;

/* The rows of one call. Row i owns local tokens query_start_loc[i] .. query_start_loc[i+1]-1. A row whose block id is <= null_block_id
 * is a null row: its outputs become 0 and nothing else is touched. */
typedef struct recoverssm_rows {
  size_t struct_size;
  recoverssm_tensor query_start_loc;   /* [N+1] int32, not decreasing; the first may be > 0 */
  recoverssm_tensor state_indices;     /* [N] int32; snapshots: [N, S], one block a token */
  recoverssm_tensor has_initial_state; /* optional [N] boolean, plain rows only: false starts from zero */
  recoverssm_tensor num_accepted;      /* optional [N] int32 */
  recoverssm_tensor token_index;       /* optional int32: local token -> row of the globally addressed tensors */
  int32_t window_capacity;             /* S: the most tokens of a window; ignored by plain ops */
  int32_t null_block_id;               /* default 0: block 0 is no block of a request, only padding. -1 to use it */
} recoverssm_rows;

/* Inputs of the delta rules, addressed by local token. HV is a multiple of H; a head's K or V elements are contiguous. */
typedef struct recoverssm_rule_inputs {
  size_t struct_size;
  recoverssm_tensor q;       /* [n, H, K] T */
  recoverssm_tensor k;       /* [n, H, K] T */
  recoverssm_tensor v;       /* [n, HV, V] T */
  recoverssm_tensor a;       /* gdn: [n, HV] T; kda: [n, HV, K] T, the raw gate */
  recoverssm_tensor b;       /* [n, HV] T */
  recoverssm_tensor A_log;   /* [HV] T or f32 */
  recoverssm_tensor dt_bias; /* gdn: [HV]; kda: [HV, K]; T or f32 */
  int32_t gate;              /* RECOVERSSM_GATE_ */
  int32_t l2norm;            /* default 1 */
  int32_t has_lower_bound;   /* kda only: selects the bounded gate */
  float lower_bound;         /* < 0 */
  int32_t has_scale;
  float scale;              /* default fp32(1/sqrt(double(K))) */
  float softplus_beta;      /* default 1 */
  float softplus_threshold; /* default 20 */
} recoverssm_rule_inputs;

/* What verify stores per token so that commit can replay it. gdn ("gdn_f32"): packed = [blocks, HV, S, V+K+1] f32. kda ("kda_act"):
 * corrections [blocks, HV, S, V] f32 and key_gate [blocks, HV, S, 2K] in T. Last stride 1. */
typedef struct recoverssm_records {
  size_t struct_size;
  recoverssm_tensor packed;
  recoverssm_tensor corrections;
  recoverssm_tensor key_gate;
} recoverssm_records;

/* One layer of commit, materialize or align_move: a state with records, a conv line, or both. */
typedef struct recoverssm_layer {
  size_t struct_size;
  recoverssm_tensor line;            /* optional [blocks, cols, C] T */
  recoverssm_tensor state;           /* optional [blocks, HV, V, K] f32, bf16 or f16 */
  recoverssm_tensor pending;         /* optional [blocks] int32: records that wait in a block (lazy form) */
  recoverssm_tensor A_log;           /* kda: [HV] */
  recoverssm_tensor dt_bias;         /* kda: [HV, K] */
  const recoverssm_records* records; /* with state (align_move: optional, not read); null: none */
  int32_t group;                     /* index into commit's groups; ignored by materialize and align_move */
  int32_t line_kind;                 /* RECOVERSSM_LINE_, default rolled */
  int32_t conv_taps;                 /* W; read where there is a line */
  int32_t gate;                      /* RECOVERSSM_GATE_ */
  int32_t has_lower_bound;
  float lower_bound;
  int32_t l2norm;           /* default 1 */
  float softplus_beta;      /* default 1 */
  float softplus_threshold; /* default 20 */
  int32_t reserved;
} recoverssm_layer;

/* Parameters of the operations. T is the activations' dtype; n and m: rows of globally and locally addressed tensors. */

typedef struct recoverssm_split_projections_params {
  size_t struct_size;
  recoverssm_tensor qkvz;        /* [n, 2*H*K + 2*HV*V] T, read at global rows */
  recoverssm_tensor ba;          /* [n, 2*HV] T, read at global rows */
  recoverssm_tensor mixed_qkv;   /* [m, C] T, C = 2*H*K + HV*V; written at local rows */
  recoverssm_tensor z;           /* [n, HV, V] T, written at global rows */
  recoverssm_tensor b;           /* [m, HV] T, written at local rows */
  recoverssm_tensor a;           /* [m, HV] T, written at local rows */
  recoverssm_tensor token_index; /* optional [tokens] int32 */
  int32_t layout;                /* RECOVERSSM_LAYOUT_ */
  int32_t num_k_heads;           /* H */
  int32_t num_v_heads;           /* HV */
  int32_t head_k_dim;            /* K */
  int32_t head_v_dim;            /* V */
  int32_t reserved;
} recoverssm_split_projections_params;

/* Plain rows. */
typedef struct recoverssm_causal_conv1d_params {
  size_t struct_size;
  recoverssm_tensor x;         /* [n, C] T, channel stride 1 */
  recoverssm_tensor weight;    /* [C, W] T or f32, W = 2..8 */
  recoverssm_tensor bias;      /* optional [C] T or f32 */
  recoverssm_tensor out;       /* [n, C] T; exactly x or disjoint from it */
  recoverssm_tensor line;      /* [blocks, cols, C] T, cols >= W-1 */
  const recoverssm_rows* rows; /* required */
  int32_t activation;          /* RECOVERSSM_ACTIVATION_ */
  int32_t line_kind;           /* RECOVERSSM_LINE_, default rolled */
} recoverssm_causal_conv1d_params;

/* Windows of 0..S tokens. rolled: cols >= W-1 + S-1; anchored: cols >= W-1 + S. */
typedef struct recoverssm_causal_conv1d_window_params {
  size_t struct_size;
  recoverssm_tensor x;
  recoverssm_tensor weight;
  recoverssm_tensor bias;
  recoverssm_tensor out;
  recoverssm_tensor line;
  const recoverssm_rows* rows; /* required */
  int32_t activation;
  int32_t line_kind; /* default rolled */
} recoverssm_causal_conv1d_window_params;

/* Plain rows: reads the row's block, writes the final state back to it. */
typedef struct recoverssm_gated_delta_rule_params {
  size_t struct_size;
  const recoverssm_rule_inputs* inputs; /* required */
  const recoverssm_rows* rows;          /* required; num_accepted: only with pending */
  const recoverssm_records* records;    /* with pending; null: none */
  recoverssm_tensor state;              /* [blocks, HV, V, K], inner part contiguous */
  recoverssm_tensor out;                /* [m, HV, V] T or f32, written at global rows */
  recoverssm_tensor pending;            /* optional [blocks] int32 */
} recoverssm_gated_delta_rule_params;

/* Windows, one state a token: starts from column max(num_accepted-1, 0), stores the state after token t to column t. */
typedef struct recoverssm_gated_delta_rule_snapshots_params {
  size_t struct_size;
  const recoverssm_rule_inputs* inputs; /* required */
  const recoverssm_rows* rows;          /* required; state_indices [N, S], num_accepted required */
  recoverssm_tensor state;
  recoverssm_tensor out;
} recoverssm_gated_delta_rule_snapshots_params;

/* Windows, with records. Without pending the state is left alone; with it (lazy form) waiting records are folded first. */
typedef struct recoverssm_gated_delta_rule_verify_params {
  size_t struct_size;
  const recoverssm_rule_inputs* inputs; /* required */
  const recoverssm_rows* rows;          /* required; num_accepted: with pending, and only then */
  const recoverssm_records* records;    /* required, written */
  recoverssm_tensor state;
  recoverssm_tensor out;
  recoverssm_tensor pending; /* optional [blocks] int32 */
} recoverssm_gated_delta_rule_verify_params;

/* What a plan writes for one cache group; [N] int32 each. */
typedef struct recoverssm_plan_outputs {
  size_t struct_size;
  recoverssm_tensor commit_len;
  recoverssm_tensor final_indices;
  recoverssm_tensor boundary_indices;
  recoverssm_tensor boundary_len;
} recoverssm_plan_outputs;

/* block_table, num_computed and block_size are given together (align mode) or not at all. */
typedef struct recoverssm_commit_plan_params {
  size_t struct_size;
  recoverssm_tensor num_accepted;     /* [R] int32 */
  recoverssm_tensor query_start_loc;  /* [N+1] int32 */
  recoverssm_tensor state_indices;    /* [N] int32 */
  recoverssm_tensor request_index;    /* optional [N] int32 */
  recoverssm_tensor block_table;      /* optional [R, width] int32 */
  recoverssm_tensor num_computed;     /* optional [R] int32 */
  const recoverssm_plan_outputs* out; /* required */
  int32_t window_capacity;            /* S */
  int32_t null_block_id;
  int32_t has_block_size;
  int32_t block_size; /* >= S */
} recoverssm_commit_plan_params;

typedef struct recoverssm_plan_group {
  size_t struct_size;
  recoverssm_tensor state_indices;    /* [N] int32 */
  recoverssm_tensor block_table;      /* optional [R, width] int32; in all groups or in none */
  const recoverssm_plan_outputs* out; /* required */
} recoverssm_plan_group;

typedef struct recoverssm_commit_plan_groups_params {
  size_t struct_size;
  recoverssm_tensor num_accepted;
  recoverssm_tensor query_start_loc;
  recoverssm_tensor request_index;
  recoverssm_tensor num_computed;
  const recoverssm_plan_group* groups;
  size_t group_count;
  int32_t window_capacity;
  int32_t null_block_id;
  int32_t has_block_size;
  int32_t block_size;
} recoverssm_commit_plan_groups_params;

/* A plan's arrays for one cache group, [N] int32 each. */
typedef struct recoverssm_commit_group {
  size_t struct_size;
  recoverssm_tensor state_indices;
  recoverssm_tensor commit_len;
  recoverssm_tensor final_indices;
  recoverssm_tensor boundary_indices;
  recoverssm_tensor boundary_len;
} recoverssm_commit_group;

typedef struct recoverssm_commit_params {
  size_t struct_size;
  const recoverssm_commit_group* groups;
  size_t group_count;
  const recoverssm_layer* layers;
  size_t layer_count;
  int32_t window_capacity; /* S */
  int32_t null_block_id;
} recoverssm_commit_params;

/* Folds the waiting records of each listed block into its state. */
typedef struct recoverssm_materialize_params {
  size_t struct_size;
  recoverssm_tensor blocks;       /* [M] int32 */
  recoverssm_tensor num_accepted; /* [M] int32 */
  const recoverssm_layer* layers; /* pending required */
  size_t layer_count;
  int32_t null_block_id;
  int32_t reserved;
} recoverssm_materialize_params;

/* Before the forward: copies state and line history of row i from block from[i] to block to[i]. */
typedef struct recoverssm_align_move_params {
  size_t struct_size;
  recoverssm_tensor from; /* [N] int32 */
  recoverssm_tensor to;   /* [N] int32 */
  const recoverssm_layer* layers;
  size_t layer_count;
  int32_t null_block_id;
  int32_t reserved;
} recoverssm_align_move_params;

/* After the commit: running columns of the live rows. */
typedef struct recoverssm_align_advance_params {
  size_t struct_size;
  recoverssm_tensor commit_len;     /* [N] int32 */
  recoverssm_tensor state_indices;  /* [N] int32 */
  recoverssm_tensor request_index;  /* optional [N] int32 */
  recoverssm_tensor num_computed;   /* [R] int32 */
  recoverssm_tensor running_column; /* [R] int32, read and written */
  recoverssm_tensor num_accepted;   /* [R] int32, read and written */
  int32_t block_size;
  int32_t null_block_id;
} recoverssm_align_advance_params;

typedef struct recoverssm_short_conv_params {
  size_t struct_size;
  recoverssm_tensor x;              /* [n, C] T, read at global rows */
  recoverssm_tensor weight;         /* [C, Kc] T or f32, Kc >= 2 */
  recoverssm_tensor residual;       /* [m, C] T, written at global rows */
  recoverssm_tensor outer_residual; /* optional [m, C] T */
  recoverssm_tensor line;           /* [blocks, cols, C] T; cols >= (Kc-1)*dilation, + S-1 rolled, + S anchored */
  const recoverssm_rows* rows;      /* required */
  int32_t dilation;                 /* default 1 */
  int32_t line_kind;                /* RECOVERSSM_LINE_, default plain */
} recoverssm_short_conv_params;

/* Plain rows of a mixed step. */
typedef struct recoverssm_attention_plain {
  size_t struct_size;
  const recoverssm_rows* rows;       /* required; its null_block_id is not read */
  const recoverssm_records* records; /* null: none */
  recoverssm_tensor pending;         /* optional; absent, with records null too: the windows' */
} recoverssm_attention_plain;

/* Windows of a mixed step. */
typedef struct recoverssm_attention_windows {
  size_t struct_size;
  const recoverssm_rows* rows;       /* required; its null_block_id is not read */
  const recoverssm_records* records; /* verify */
  recoverssm_tensor pending;         /* verify: optional */
  int32_t mode;                      /* RECOVERSSM_WINDOW_, default verify */
  int32_t reserved;
} recoverssm_attention_windows;

typedef struct recoverssm_gdn_attention_params {
  size_t struct_size;
  recoverssm_tensor qkvz;                      /* [n, 2*H*K + 2*HV*V] T */
  recoverssm_tensor ba;                        /* [n, 2*HV] T */
  recoverssm_tensor weight;                    /* [C, W] T or f32 */
  recoverssm_tensor bias;                      /* optional [C] T or f32 */
  recoverssm_tensor A_log;                     /* [HV] T or f32 */
  recoverssm_tensor dt_bias;                   /* [HV] T or f32 */
  recoverssm_tensor line;                      /* [blocks, cols, C] T */
  recoverssm_tensor state;                     /* [blocks, HV, V, K] */
  recoverssm_tensor out;                       /* [m, HV, V] T or f32, written at global rows */
  recoverssm_tensor z;                         /* [n, HV, V] T, written at global rows */
  const recoverssm_attention_plain* plain;     /* null: none */
  const recoverssm_attention_windows* windows; /* null: none */
  int32_t layout;                              /* RECOVERSSM_LAYOUT_ */
  int32_t num_k_heads;                         /* H */
  int32_t num_v_heads;                         /* HV */
  int32_t head_k_dim;                          /* K */
  int32_t head_v_dim;                          /* V */
  int32_t activation;                          /* RECOVERSSM_ACTIVATION_ */
  int32_t line_kind;                           /* RECOVERSSM_LINE_, default rolled */
  int32_t l2norm;                              /* default 1 */
  int32_t has_scale;
  float scale;
  float softplus_beta;      /* default 1 */
  float softplus_threshold; /* default 20 */
  int32_t null_block_id;    /* of both parts */
  int32_t reserved;
} recoverssm_gdn_attention_params;

/* How a call is launched. Threads, target and workspace never change a result's bits. */

/* Bytes of algorithmic traffic, added to what is there; rows and tokens are counts. */
typedef struct recoverssm_counters {
  size_t struct_size;
  int64_t rows, tokens;
  int64_t state_read, state_written;
  int64_t record_read, record_written;
  int64_t line_read, line_written;
  int64_t activation_read, activation_written;
} recoverssm_counters;

typedef void (*recoverssm_task)(void* context, int64_t task, int worker);

/* Runs task(context, t, worker) for every t in 0..tasks-1, in any order, and returns when all are done. worker is below
 * parallel_workers, and no two tasks run at once with the same worker number. */
typedef void (*recoverssm_parallel_for)(void* self, int64_t tasks, recoverssm_task task, void* context);

/* What a device found wrong in index contents, which the host cannot look at before a launch. The row in question became a null row, a
 * dead row, or wrote nothing. Sticky: the first finding stays until the caller clears code. Zeroed at first. It never changes: kernels write it. */
typedef struct recoverssm_device_flag {
  int32_t code;  /* a status; 0: nothing found */
  int32_t op;    /* RECOVERSSM_OP_ */
  int32_t layer; /* index among the call's layers; 0 where a call has one */
  int32_t row;   /* index among the call's rows; of gdn_attention, within its part */
} recoverssm_device_flag;

typedef struct recoverssm_launch {
  size_t struct_size;
  void* workspace; /* aligned to RECOVERSSM_WORKSPACE_ALIGNMENT; contents mean nothing before and after; one call at a time */
  size_t workspace_bytes;
  recoverssm_parallel_for parallel_run; /* null: everything runs in the calling thread, parallel_workers is not read */
  void* parallel_self;
  recoverssm_counters* counters; /* optional, added to. Like the workspace, it must not lie in a tensor: nobody checks that */
  int32_t parallel_workers;      /* default 1; at least 1 */
  int32_t target;                /* RECOVERSSM_TARGET_, default best */
  void* stream;                  /* cuda: a cudaStream_t; sycl: an in-order sycl::queue*; null: the default one */
  recoverssm_device_flag* flag;  /* cuda, sycl: optional, in memory the device can write */
  int32_t backend; /* RECOVERSSM_BACKEND_, default cpu. The others read neither parallel_ fields nor target, and take no counters */
  int32_t reserved;
} recoverssm_launch;

/* A thread pool and a workspace for a caller that has none of its own. */
typedef struct recoverssm_context recoverssm_context;

/* threads: workers, the calling thread included; 0: one a core; at most 1024. */
RECOVERSSM_API int recoverssm_context_create(int32_t threads, recoverssm_context** context);
/* For a stream of the current device (a cudaStream_t; null: the default stream), with its workspace in that device's memory. Unsupported,
 * with the reason, where nothing runs on CUDA. */
RECOVERSSM_API int recoverssm_context_create_cuda(void* stream, recoverssm_context** context);
/* The same on SYCL: an in-order sycl::queue*, which must outlive the context; null: a queue of the default device. */
RECOVERSSM_API int recoverssm_context_create_sycl(void* queue, recoverssm_context** context);
/* Sets the launch's workspace (at least workspace_bytes; grown here, never in run), parallel_ fields, backend and stream. With 0 bytes: for asking a
 * workspace size. They stay right until the context's next launch with more bytes, or its end. */
RECOVERSSM_API int recoverssm_context_launch(recoverssm_context* context, size_t workspace_bytes, recoverssm_launch* launch);
RECOVERSSM_API void recoverssm_context_destroy(recoverssm_context* context); /* null: does nothing */

/* Defaults of the structs that operations share. size: sizeof in the caller. */
RECOVERSSM_API void recoverssm_rows_init(recoverssm_rows* rows, size_t size);
RECOVERSSM_API void recoverssm_rule_inputs_init(recoverssm_rule_inputs* inputs, size_t size);
RECOVERSSM_API void recoverssm_records_init(recoverssm_records* records, size_t size);
RECOVERSSM_API void recoverssm_layer_init(recoverssm_layer* layer, size_t size);
RECOVERSSM_API void recoverssm_plan_outputs_init(recoverssm_plan_outputs* outputs, size_t size);
RECOVERSSM_API void recoverssm_plan_group_init(recoverssm_plan_group* group, size_t size);
RECOVERSSM_API void recoverssm_commit_group_init(recoverssm_commit_group* group, size_t size);
RECOVERSSM_API void recoverssm_attention_plain_init(recoverssm_attention_plain* part, size_t size);
RECOVERSSM_API void recoverssm_attention_windows_init(recoverssm_attention_windows* part, size_t size);
RECOVERSSM_API void recoverssm_counters_init(recoverssm_counters* counters, size_t size);
RECOVERSSM_API void recoverssm_launch_init(recoverssm_launch* launch, size_t size);

/* The six functions of an operation. */
#define RECOVERSSM_OPERATION(op)                                                                                               \
  RECOVERSSM_API void recoverssm_##op##_params_init(recoverssm_##op##_params* params, size_t size);                            \
  RECOVERSSM_API int recoverssm_##op##_validate(const recoverssm_##op##_params* params);                                       \
  RECOVERSSM_API int recoverssm_##op##_query_support(const recoverssm_##op##_params* params);                                  \
  RECOVERSSM_API int recoverssm_##op##_query_support_on(const recoverssm_##op##_params* params, int32_t backend);              \
  RECOVERSSM_API int recoverssm_##op##_workspace_size(const recoverssm_##op##_params* params, const recoverssm_launch* launch, \
                                                      size_t* bytes);                                                          \
  RECOVERSSM_API int recoverssm_##op##_run(const recoverssm_##op##_params* params, const recoverssm_launch* launch);

RECOVERSSM_OPERATION(split_projections)
RECOVERSSM_OPERATION(causal_conv1d)
RECOVERSSM_OPERATION(causal_conv1d_window)
RECOVERSSM_OPERATION(gated_delta_rule)
RECOVERSSM_OPERATION(gated_delta_rule_snapshots)
RECOVERSSM_OPERATION(gated_delta_rule_verify)
RECOVERSSM_OPERATION(commit_plan)
RECOVERSSM_OPERATION(commit_plan_groups)
RECOVERSSM_OPERATION(commit)
RECOVERSSM_OPERATION(materialize)
RECOVERSSM_OPERATION(align_move)
RECOVERSSM_OPERATION(align_advance)
RECOVERSSM_OPERATION(short_conv)
RECOVERSSM_OPERATION(gdn_attention)

#undef RECOVERSSM_OPERATION

/* The text of this thread's last failed call; "" before there is one. The same memory for the thread's whole life: valid until its next
 * failed call. Longer texts than 1023 bytes are cut. */
RECOVERSSM_API const char* recoverssm_last_error(void);

/* What this build is and what this machine can run. */
RECOVERSSM_API const char* recoverssm_version(void); /* "0.1.0" */
RECOVERSSM_API int recoverssm_version_number(void);  /* of the library; RECOVERSSM_VERSION_NUMBER is the header's */
/* Targets that run here, widest first: up to capacity of them into targets (null if capacity is 0), their number into count. */
RECOVERSSM_API int recoverssm_available_targets(int32_t* targets, size_t capacity, size_t* count);
/* The target that `target` runs as here: best is resolved. */
RECOVERSSM_API int recoverssm_resolve_target(int32_t target, int32_t* resolved);

/* What of CUDA there is. available: OK, or UNSUPPORTED with the reason ("this build has no CUDA backend", "no CUDA driver", ...).
 * architectures: what this build's kernels are compiled for, "sm_90 compute_90"; "" without the backend. */
typedef struct recoverssm_cuda_device {
  size_t struct_size;
  char name[128];
  char unusable[128]; /* why this build's kernels do not run there; "": they do */
  int64_t memory_bytes;
  int32_t index;        /* as cudaSetDevice counts */
  int32_t major, minor; /* compute capability */
  int32_t multiprocessors;
} recoverssm_cuda_device;

RECOVERSSM_API void recoverssm_cuda_device_init(recoverssm_cuda_device* device, size_t size);
RECOVERSSM_API int recoverssm_cuda_available(void);
RECOVERSSM_API const char* recoverssm_cuda_architectures(void);
RECOVERSSM_API int recoverssm_cuda_device_count(int32_t* count); /* usable or not; 0 without a driver */
RECOVERSSM_API int recoverssm_cuda_describe_device(int32_t index, recoverssm_cuda_device* device);

/* What of SYCL there is. available: OK, or UNSUPPORTED with the reason (no module, no device, a device whose arithmetic is not exact). */
RECOVERSSM_API int recoverssm_sycl_available(void);
RECOVERSSM_API const char* recoverssm_sycl_runtime(void); /* "libsycl 9.0.0"; "" without the module */

/* "invalid_argument", "bf16", "avx2", "cuda", "commit", "gdn_f32"; "unknown" for a number that is none. Size of an element in bytes, or 0. */
RECOVERSSM_API const char* recoverssm_status_name(int status);
RECOVERSSM_API const char* recoverssm_dtype_name(int32_t dtype);
RECOVERSSM_API int64_t recoverssm_dtype_size(int32_t dtype);
RECOVERSSM_API const char* recoverssm_target_name(int32_t target);
RECOVERSSM_API const char* recoverssm_backend_name(int32_t backend);
RECOVERSSM_API const char* recoverssm_operation_name(int32_t op); /* of a device flag */
RECOVERSSM_API const char* recoverssm_record_layout_id(int32_t gate);

/* Memory per request and layer. */
typedef struct recoverssm_geometry {
  size_t struct_size;
  int32_t H, HV, K, V;
  int32_t W;        /* conv taps; 0: no conv line */
  int32_t channels; /* C; 0: 2*H*K + HV*V */
  int32_t S;        /* window capacity, default 1 */
  int32_t gate;
  int32_t activation; /* dtype T, default bf16 */
  int32_t state;      /* dtype, default f32 */
} recoverssm_geometry;

/* Bytes. */
typedef struct recoverssm_request_sizes {
  size_t struct_size;
  int64_t state;
  int64_t line_rolled;   /* (W-1 + S-1) * C */
  int64_t line_anchored; /* (W-1 + S) * C */
  int64_t records;
  int64_t page_rolled;   /* state + records + rolled line */
  int64_t page_anchored; /* state + records + anchored line */
  int64_t snapshots;     /* S states + rolled line: what the same window takes without records */
} recoverssm_request_sizes;

RECOVERSSM_API void recoverssm_geometry_init(recoverssm_geometry* geometry, size_t size);
RECOVERSSM_API void recoverssm_request_sizes_init(recoverssm_request_sizes* sizes, size_t size);
RECOVERSSM_API int recoverssm_sizes(const recoverssm_geometry* geometry, recoverssm_request_sizes* sizes);

/* The window rows of a step, in request order. draft_counts: drafts of each request, -1 for none; prefilling: not 0 where the request is
 * still in its prompt; lengths: tokens it runs in this step; each [requests]. rows: room for `requests`; row_count of them are written.
 * identity: 1 if the windows are exactly requests 0..row_count-1, so that no request_index is needed. */
RECOVERSSM_API int recoverssm_map_windows(const int32_t* draft_counts, const uint8_t* prefilling, const int32_t* lengths,
                                          size_t requests, int32_t* rows, size_t* row_count, int32_t* identity);

/* Dense tensors, last dimension fastest. Conveniences, compiled into the caller. */
static inline recoverssm_tensor recoverssm_dense(void* data, int32_t dtype, int32_t dims, int64_t n0, int64_t n1, int64_t n2,
                                                 int64_t n3) {
  recoverssm_tensor tensor;
  const int64_t shape[RECOVERSSM_MAX_DIMS] = {n0, n1, n2, n3};
  int64_t step = 1;
  int32_t d;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.dims = dims;
  for (d = RECOVERSSM_MAX_DIMS - 1; d >= 0; --d) {
    tensor.shape[d] = d < dims ? shape[d] : 0;
    tensor.stride[d] = d < dims ? step : 0;
    if (d < dims && shape[d] > 1) step *= shape[d];
  }
  tensor.reserved[0] = tensor.reserved[1] = 0;
  return tensor;
}
static inline recoverssm_tensor recoverssm_dense_1d(void* data, int32_t dtype, int64_t n0) {
  return recoverssm_dense(data, dtype, 1, n0, 0, 0, 0);
}
static inline recoverssm_tensor recoverssm_dense_2d(void* data, int32_t dtype, int64_t n0, int64_t n1) {
  return recoverssm_dense(data, dtype, 2, n0, n1, 0, 0);
}
static inline recoverssm_tensor recoverssm_dense_3d(void* data, int32_t dtype, int64_t n0, int64_t n1, int64_t n2) {
  return recoverssm_dense(data, dtype, 3, n0, n1, n2, 0);
}
static inline recoverssm_tensor recoverssm_dense_4d(void* data, int32_t dtype, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  return recoverssm_dense(data, dtype, 4, n0, n1, n2, n3);
}

#ifdef __cplusplus
}
#endif

#endif
