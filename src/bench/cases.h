// What is measured: one table, a line a case.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/data_set.h"
#include "bench/limits.h"
#include "bench/options.h"

namespace recoverssm::bench {

// A shape that a device measures: rows, tokens a row, layers (0: the case's), the states' dtype (absent: the options').
struct Point {
  int rows = 0, tokens = 0, layers = 0;
  std::optional<DType> state{};
};

// What happens to a state element, for the issue slots it takes.
enum class Work { none, keep, verify, replay };  // tokens and the state is kept; tokens on a state left alone; records only

enum class Gates { none, both };

struct Case {
  const char* op;       // the function's name, or what several calls together are: conv_verify, step
  const char* variant;  // "" where there is only one
  Build build;
  Bound bound;
  Work work;
  Gates gates;
  int rows, tokens, layers, waiting;
  struct Extras {
    bool boundary = false;
    LineKind line_kind = LineKind::rolled;
    bool fixed_tokens = false;  // --tokens does not apply: decode is one token
    bool moved = false;
    int groups = 1;
    bool call_a_group = false;
    Form form = Form::records;
    const std::vector<Point>* on_device = nullptr;  // null: the case's own shape
  } extras{};
};

const std::vector<Case>& case_table();

// A case with its shape: what one row of the report is about, but for target and threads.
struct Job {
  const Case* row = nullptr;
  std::string name;  // "gated_delta_rule_verify.t4.gdn"; on a device several jobs have one name and other shapes
  Shape shape;
};

// The jobs that the options ask for, in table order. Throws Error(invalid_argument) for a glob that matches nothing and for a shape
// that the operation refuses.
std::vector<Job> jobs_of(const Options& options);

// Whether a glob names the case: its whole name, the operation, or the operation and variant.
bool matches(const std::string& glob, const Case& row, const std::string& name);

// Bytes that one data set takes.
std::size_t bytes_of(const Job& job);

// The same job, shrunk until a set takes no more than `budget` bytes: one layer, rows no fewer than threads, fewer heads, then fewer tokens.
Job in_cache(Job job, std::size_t budget, int threads);

// The same job for the portable target, whose multiply-adds are calls: rows of at most 256 tokens where states are computed.
Job for_portable(Job job);

// Sets that together take more than `times` caches.
std::size_t sets_beyond_cache(std::size_t set_bytes, std::size_t cache_bytes, std::size_t times = 2);

// Multiply-add slots (instructions x lanes) of one call; 0 where the states see no arithmetic.
std::int64_t issue_slots(const Job& job);

// "8 rows x 4 tokens, H 16, HV 48, K 128, V 128, f32 state, bf16"
std::string text_of(const Job& job);

}  // namespace recoverssm::bench
