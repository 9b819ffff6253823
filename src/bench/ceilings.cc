#include "bench/ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>

#include "bench/ceiling_kernels.h"

namespace recoverssm::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kGrain = 2048;  // floats; every kernel takes a multiple of it
// Beyond the cache a task is about 1 MiB, whoever is free takes the next, and a pass 64 of them. No power of two: streams would meet in
// the same sets of the caches.
constexpr std::int64_t kPieceFloats = 129 * kGrain;
constexpr std::int64_t kPassPieces = 64;
constexpr int kPasses = 5;
constexpr int kMorePasses = 40;     // of the best variant, so that the luck of a moment decides less
constexpr double kShortest = 2e-3;  // seconds of a pass in cache
constexpr int kStreams[] = {1, 2, 4, 8};
constexpr int kPrefetch[] = {0, 1024, 4096};

// A share of memory that one task works through `repeats` times.
using Piece = std::function<void(float* at, std::int64_t n)>;

volatile float result_sink;  // what was read and summed is used

class Meter {
 public:
  Meter(PinnedPool& pool, Size size, float* memory, std::int64_t n)
      : pool_(pool), in_cache_(size == Size::in_cache), memory_(memory) {
    const std::int64_t share = n / pool.workers() / kGrain * kGrain;
    piece_ = in_cache_ ? share : std::min(kPieceFloats, share);
    pieces_ = n / piece_;
    // In cache a piece stays with whoever took it, for all repeats. Beyond the cache every pass goes on where the last one stopped, so
    // that a pass is short, which suits the best of several, and still finds nothing in cache.
    pass_pieces_ = in_cache_ ? pieces_ : std::min(kPassPieces, pieces_);
  }

  // Bytes a second of the fastest pass; a piece of n floats moves n * bytes_per_float.
  double rate(double bytes_per_float, const Piece& piece, int passes = kPasses) {
    std::int64_t repeats = 1;
    double best = pass(piece, repeats);
    while (in_cache_ && best < kShortest) {
      repeats *= 2;
      best = pass(piece, repeats);
    }
    for (int i = 1; i < passes; ++i) best = std::min(best, pass(piece, repeats));
    return bytes_per_float * static_cast<double>(piece_ * pass_pieces_ * repeats) / best;
  }

 private:
  struct Round {
    const Meter* meter;
    const Piece* piece;
    std::int64_t first, repeats;
  };

  double pass(const Piece& piece, std::int64_t repeats) {
    Round round{this, &piece, next_, repeats};
    next_ = (next_ + pass_pieces_) % pieces_;
    const auto start = Clock::now();
    pool_.run(
        pass_pieces_,
        [](void* context, std::int64_t task, int) {
          const Round& r = *static_cast<Round*>(context);
          const Meter& m = *r.meter;
          float* at = m.memory_ + (r.first + task) % m.pieces_ * m.piece_;
          for (std::int64_t i = 0; i < r.repeats; ++i) (*r.piece)(at, m.piece_);
        },
        &round);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  PinnedPool& pool_;
  bool in_cache_;
  float* memory_;
  std::int64_t piece_ = 0, pieces_ = 0, pass_pieces_ = 0, next_ = 0;
};

const Sample& best_of(const std::vector<Sample>& samples) {
  return *std::max_element(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.rate < b.rate; });
}

// A kernel with streams and prefetch, in every combination; the best once more.
template <class Kernel>
Sample best_variant(Meter& meter, std::vector<Sample>& all, const std::vector<Target>& targets, const char* name, double bytes,
                    Kernel&& kernel) {
  Sample best;
  Piece best_piece;
  for (const Target target : targets) {
    for (const int streams : kStreams) {
      for (const int prefetch : kPrefetch) {
        const CeilingKernels& kernels = ceiling_kernels(target);
        const Piece piece = [=](float* at, std::int64_t n) { kernel(kernels, at, n, streams, prefetch); };
        all.push_back(
            {fmt::format("{} {}, streams {}, prefetch {} B", name, name_of(target), streams, prefetch), meter.rate(bytes, piece)});
        if (all.back().rate > best.rate) {
          best = all.back();
          best_piece = piece;
        }
      }
    }
  }
  best.rate = std::max(best.rate, meter.rate(bytes, best_piece, kMorePasses));
  return best;
}

double issue_rate(PinnedPool& pool, Target target) {
  struct Round {
    const CeilingKernels* kernels;
    std::int64_t rounds;
  };
  Round round{&ceiling_kernels(target), 1 << 10};
  const auto pass = [&] {
    const auto start = Clock::now();
    pool.run(
        pool.workers(),
        [](void* context, std::int64_t, int) {
          const Round& r = *static_cast<Round*>(context);
          result_sink = r.kernels->fma(r.rounds);
        },
        &round);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  double best = pass();
  while (best < kShortest) {
    round.rounds *= 2;
    best = pass();
  }
  for (int i = 0; i < kMorePasses; ++i) best = std::min(best, pass());
  return static_cast<double>(round.rounds) * kFmaChains * round.kernels->lanes * pool.workers() / best;
}

}  // namespace

Ceilings measure_ceilings(PinnedPool& pool, Size size, float* memory, std::size_t bytes, const std::vector<Target>& targets) {
  Ceilings c;
  c.threads = pool.workers();
  c.size = size;
  c.bytes = bytes;
  const auto n = static_cast<std::int64_t>(bytes / sizeof(float));
  Meter whole(pool, size, memory, n);
  // The emulated vectors of the portable target do not move memory faster than real ones.
  std::vector<Target> wide;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(wide), [](Target target) { return target != Target::portable; });
  if (wide.empty()) wide = targets;
  c.read = best_variant(whole, c.all, wide, "read", 4,
                        [](const CeilingKernels& kernels, float* at, std::int64_t count, int streams, int prefetch) {
                          result_sink = kernels.read(at, count, streams, prefetch);
                        });
  c.update = best_variant(whole, c.all, wide, "update", 8,
                          [](const CeilingKernels& kernels, float* at, std::int64_t count, int streams, int prefetch) {
                            kernels.update(at, count, streams, prefetch);
                          });

  // Copies go from the first half to the second.
  const std::int64_t half = n / 2 / kGrain * kGrain;
  Meter halves(pool, size, memory, half);
  std::vector<Sample> copies;
  const auto copy = [&](std::string name, auto kernel) {
    const double rate = halves.rate(
        8, [&](float* at, std::int64_t count) { kernel(at, at + half, count); }, kMorePasses);
    copies.push_back({std::move(name), rate});
  };
  for (const Target target : wide) {
    const CeilingKernels& kernels = ceiling_kernels(target);
    copy(fmt::format("copy {}", name_of(target)), kernels.copy);
    copy(fmt::format("copy {}, non-temporal stores", name_of(target)), kernels.copy_stream);
  }
  if (has_copy_string()) copy("copy rep movsb", copy_string);
  copy("memcpy", [](const float* from, float* to, std::int64_t count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  });
  c.memcpy_ = copies.back();
  c.copy = best_of(copies);
  c.all.insert(c.all.end(), copies.begin(), copies.end());

  for (const Target target : targets) c.issue[target] = issue_rate(pool, target);
  return c;
}

Limits limits_of(const Ceilings& c, Target target) {
  const auto issue = c.issue.find(target);
  return {.copy = c.copy.rate, .read = c.read.rate, .issue = issue == c.issue.end() ? 0 : issue->second};
}

}  // namespace recoverssm::bench
