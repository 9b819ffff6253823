// The inner loops of the CPU backend, one table a SIMD target. Every target gives the same bits: the order of operations is fixed by
// the contract and each table only differs in how many lanes run it at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/select.h"
#include "recoverssm/types.hpp"

namespace recoverssm::cpu {

// Channels and tokens a convolution kernel handles at once; scratch rows of channels have the stride kConvTile.
constexpr int kConvTile = 512;
constexpr int kConvBlock = 8;
constexpr int kConvAhead = 2;  // tokens whose rows are asked for beforehand

// A few tokens of a causal convolution over `channels` channels.
struct ConvTokens {
  int channels = 0;  // <= kConvTile
  int taps = 0;      // W
  int count = 0;     // tokens, <= kConvBlock
  int known = 0;     // count, or more: rows of tokens that come with the next call, for which the window moves on
  DType dtype = DType::f32;
  DType out_dtype = DType::f32;
  const std::byte* inputs[kConvBlock + kConvAhead] = {};  // token t's channels, contiguous
  std::byte* outputs[kConvBlock + kConvAhead] = {};       // as inputs; outputs[t] may be inputs[t]
  float* window = nullptr;        // [W-1+kConvBlock][kConvTile]: the W-1 tokens before, widened; the rest is scratch
  float* sums = nullptr;          // scratch [kConvTile]
  const float* weight = nullptr;  // [W][kConvTile]
  const float* bias = nullptr;    // [channels] or null
  bool silu = false;
};

// One token of a short convolution: the dilated sum, before its rounding to T. inputs and weight as above, any number of taps.
struct ShortConvToken {
  int channels = 0;
  int taps = 0;
  const float* const* inputs = nullptr;
  const float* weight = nullptr;  // [Kc][kConvTile]
  float* out = nullptr;
};

// Tokens of one head, prepared in fp32 scratch. All matrices have row stride padded_k(K); lanes K.. are never used.
struct HeadTokens {
  int count = 0;
  int K = 0;
  const float* k = nullptr;        // [count][padded_k] normalised key
  const float* q = nullptr;        // [count][padded_k] normalised, scaled query; unused by replay
  const float* k_dot_q = nullptr;  // [count]
  const float* decay = nullptr;    // gdn: [count]; kda: [count][padded_k]
  bool decay_per_channel = false;
  const float* beta = nullptr;  // [count]
};

// Rows of one head's state as they are stored: K contiguous elements a row, one row after the other. Without data: not wanted.
struct StateTile {
  void* data = nullptr;
  DType dtype = DType::f32;
};

// Sequential delta rule over up to kStateRows rows of one head's state.
// v, correction and out are matrices [token][row] with row stride 1. Everything in scratch is padded to kStateRows rows, so that a
// kernel may run whole groups of rows; rows past `rows` hold numbers nobody reads.
struct DeltaRows {
  HeadTokens tokens;              // count >= 1
  int rows = 0;                   // <= kStateRows
  StateTile from;                 // the state before the first token; without data, h holds it
  StateTile to;                   // gets the state after the last token, rounded
  bool keep = false;              // h holds the state after the last token, unrounded; otherwise h ends as anything
  float* h = nullptr;             // scratch [kStateRows][padded_k]
  std::int64_t token_stride = 0;  // of v, correction and out
  const float* v = nullptr;
  float* correction = nullptr;
  float* out = nullptr;             // not yet rounded
  const std::byte* next = nullptr;  // a state tile that will be asked for soon, as large as this one: fetched meanwhile
};

// Replays records 0..len-1 into up to kStateRows rows of state: hd = h*d; h = fma(c, k, hd). Where `boundary` is wanted, it gets the
// state after the first boundary_len of them, rounded; the replay goes on from the unrounded one. A row is read before it is written,
// so the three tiles may be the same memory.
struct ReplayRows {
  HeadTokens tokens;  // k and decay are used
  int len = 0;
  int boundary_len = 0;
  int rows = 0;
  StateTile from;
  StateTile boundary;
  StateTile to;
  float* h = nullptr;                 // scratch [2][padded_k]
  std::int64_t token_stride = 0;      // of correction
  const float* correction = nullptr;  // [token][row]
  const std::byte* next = nullptr;    // as in DeltaRows
};

// Keys and queries of one head: widened, normalised, the query scaled, and their dots.
struct KeysAndQueries {
  int count = 0;
  int K = 0;
  DType dtype = DType::f32;
  const std::byte* k = nullptr;  // token t's at k + t * k_step
  const std::byte* q = nullptr;
  std::int64_t k_step = 0;  // bytes
  std::int64_t q_step = 0;
  bool l2norm = true;
  bool scale_inverse = false;  // q*(inv*scale), kda's order of the product; otherwise (q*inv)*scale
  float scale = 1;
  float* k_out = nullptr;  // [count][padded_k]
  float* q_out = nullptr;
  float* k_dot_q = nullptr;  // [count]
};

struct GdnGate {
  float A_log = 0;
  float dt_bias = 0;
  float softplus_beta = 1;
  float softplus_threshold = 20;
};

struct KdaGate {
  float A_log = 0;
  bool bounded = false;
  float lower_bound = 0;
  float softplus_beta = 1;
  float softplus_threshold = 20;
};

struct Kernels {
  Target target;
  // Widening is exact; narrowing rounds to nearest even. dtype: f32, bf16, f16.
  void (*widen)(DType dtype, const void* from, float* to, std::int64_t n);
  void (*narrow)(DType dtype, const float* from, void* to, std::int64_t n);
  void (*sigmoid)(const float* b, float* beta, int n);
  void (*gdn_decay)(const GdnGate& gate, const float* a, float* decay, int n);                          // n tokens of one head
  void (*kda_decay)(const KdaGate& gate, const float* raw, const float* dt_bias, float* decay, int n);  // n channels of one token
  void (*silu)(const float* x, float* to, int n);  // x / (1 + exp(-x)), not yet rounded
  void (*conv)(const ConvTokens& tokens);
  void (*short_conv)(const ShortConvToken& token);
  void (*prepare)(const KeysAndQueries& tokens);
  void (*delta)(const DeltaRows& rows);
  void (*replay)(const ReplayRows& rows);
};

// The table of a target this CPU can run (never Target::best).
const Kernels& kernels_of(Target target);

// Whether this build holds the target and this CPU can run it. Allocates nothing.
bool has_target(Target target);

}  // namespace recoverssm::cpu
