#include "reference/reference.h"

#include <algorithm>
#include <cmath>

namespace reference {

namespace {

Vector scaled(const Vector& x, double factor) {
  Vector result = x;
  for (double& value : result) value *= factor;
  return result;
}

double inner(const Vector& x, const Vector& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

Vector normalised(const Vector& x) { return scaled(x, 1.0 / std::sqrt(inner(x, x) + 1e-6)); }

double softplus(double x, double beta, double threshold) {
  return beta * x > threshold ? x : std::log1p(std::exp(beta * x)) / beta;
}

Matrix identity(int n) {
  Matrix m(n, n);
  for (int i = 0; i < n; ++i) m.at(i, i) = 1;
  return m;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) {
      const double factor = a.at(i, j);
      for (int k = 0; k < b.columns; ++k) c.at(i, k) += factor * b.at(j, k);
    }
  }
  return c;
}

Vector product(const Matrix& a, const Vector& x) {
  Vector y(static_cast<std::size_t>(a.rows));
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) y[static_cast<std::size_t>(i)] += a.at(i, j) * x[static_cast<std::size_t>(j)];
  }
  return y;
}

double silu_of(double x) { return x * sigmoid(x); }

Line concatenated(const Line& a, const Line& b) {
  Line all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

double sigmoid(double x) { return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }

Vector decays(const Head& head, const Vector& gate) {
  Vector d(gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double y = gate[i] + head.dt_bias[i];
    const double rate = std::exp(head.A_log);
    const double log_decay =
        head.lower_bound ? *head.lower_bound * sigmoid(rate * y) : -rate * softplus(y, head.softplus_beta, head.softplus_threshold);
    d[i] = std::exp(log_decay);
  }
  return d;
}

Step advance(const Head& head, const Token& token, Matrix& state) {
  const int K = state.columns;
  const int V = state.rows;
  Step step;
  step.key = head.normalise ? normalised(token.k) : token.k;
  const Vector query = scaled(head.normalise ? normalised(token.q) : token.q, head.scale);
  step.decay = decays(head, token.gate);
  const double beta = sigmoid(token.b);

  Matrix decay(K, K);
  Matrix forget = identity(K);  // I - beta k k^T
  Matrix write(V, K);           // beta v k^T
  for (int i = 0; i < K; ++i) {
    const auto u = static_cast<std::size_t>(i);
    decay.at(i, i) = step.decay[step.decay.size() == 1 ? 0 : u];
    for (int j = 0; j < K; ++j) forget.at(i, j) -= beta * step.key[u] * step.key[static_cast<std::size_t>(j)];
    for (int r = 0; r < V; ++r) write.at(r, i) = beta * token.v[static_cast<std::size_t>(r)] * step.key[u];
  }
  const Matrix decayed = product(state, decay);
  const Vector recalled = product(decayed, step.key);
  step.correction = token.v;
  for (std::size_t r = 0; r < step.correction.size(); ++r) step.correction[r] = beta * (token.v[r] - recalled[r]);
  state = product(decayed, forget);
  for (std::size_t i = 0; i < state.data.size(); ++i) state.data[i] += write.data[i];
  step.out = product(state, query);
  return step;
}

Step advance_rank_one(const Head& head, const Token& token, Matrix& state) {
  const auto K = static_cast<std::size_t>(state.columns);
  Step step;
  step.key = head.normalise ? normalised(token.k) : token.k;
  const Vector query = scaled(head.normalise ? normalised(token.q) : token.q, head.scale);
  step.decay = decays(head, token.gate);
  const double beta = sigmoid(token.b);
  Vector decay(K, step.decay[0]);
  if (step.decay.size() > 1) decay = step.decay;
  for (int r = 0; r < state.rows; ++r) {
    double* row = &state.at(r, 0);
    double recalled = 0;
    for (std::size_t i = 0; i < K; ++i) {
      row[i] *= decay[i];
      recalled += row[i] * step.key[i];
    }
    const double correction = beta * (token.v[static_cast<std::size_t>(r)] - recalled);
    double out = 0;
    for (std::size_t i = 0; i < K; ++i) {
      row[i] += correction * step.key[i];
      out += row[i] * query[i];
    }
    step.correction.push_back(correction);
    step.out.push_back(out);
  }
  return step;
}

Vector convolve(const Vector& sequence, const Vector& taps, double bias, bool silu) {
  Vector out;
  for (std::size_t start = 0; start + taps.size() <= sequence.size(); ++start) {
    double sum = bias;
    for (std::size_t w = 0; w < taps.size(); ++w) sum += taps[w] * sequence[start + w];
    out.push_back(silu ? silu_of(sum) : sum);
  }
  return out;
}

Vector convolve_magnitude(const Vector& sequence, const Vector& taps, double bias) {
  Vector out;
  for (std::size_t start = 0; start + taps.size() <= sequence.size(); ++start) {
    double sum = std::fabs(bias);
    for (std::size_t w = 0; w < taps.size(); ++w) sum += std::fabs(taps[w] * sequence[start + w]);
    out.push_back(sum);
  }
  return out;
}

Vector short_convolve(const Vector& sequence, const Vector& taps, int dilation, const std::function<double(double)>& store) {
  Vector out;
  const std::size_t reach = (taps.size() - 1) * static_cast<std::size_t>(dilation);
  for (std::size_t j = 0; j + reach < sequence.size(); ++j) {
    double sum = 0;
    for (std::size_t k = 0; k < taps.size(); ++k) sum += taps[k] * sequence[j + k * static_cast<std::size_t>(dilation)];
    out.push_back(store(silu_of(store(sum))));
  }
  return out;
}

// A rolled line holds what followed the history of its last window, the oldest history entry dropped; with a kept tokens the next
// history ends at the a-th input. An anchored line keeps the whole history in front of the inputs.
Line history_of(const Line& line, int history, Kind kind, int accepted) {
  const int kept = std::max(accepted, 0);
  const int start = kind == Kind::anchored ? kept : (kept == 0 ? 0 : kept - 1);
  return Line(line.begin() + start, line.begin() + start + history);
}

Line line_after_window(const Line& line, int history, Kind kind, int accepted, const Line& inputs) {
  if (inputs.empty()) return line;
  Line all = concatenated(history_of(line, history, kind, accepted), inputs);
  if (kind == Kind::rolled) all.erase(all.begin());
  Line after = line;
  std::copy(all.begin(), all.end(), after.begin());
  return after;
}

Line line_after_plain(const Line& line, const Line& history, const Line& inputs) {
  if (inputs.empty()) return line;
  const Line all = concatenated(history, inputs);
  Line after = line;
  std::copy(all.end() - static_cast<std::ptrdiff_t>(history.size()), all.end(), after.begin());
  return after;
}

Line committed_history(const Line& line, int history, Kind kind, int kept) { return history_of(line, history, kind, kept); }

Plan plan(const PlanRow& row) {
  Plan dead;
  dead.final_block = dead.boundary_block = row.null_id;
  const int kept = std::clamp(row.accepted, 0, std::min(row.length, row.capacity));
  if (kept == 0 || row.source <= row.null_id) return dead;

  Plan result = dead;
  result.commit_len = kept;
  if (!row.align) {
    result.final_block = row.source;
    return result;
  }
  if (row.computed < 0) {
    result.out_of_range = true;
    return result;
  }
  // The state after n tokens lives in the column of the n-th token.
  const long long after = row.computed + kept;
  const auto column_after = [&](long long n) { return (n - 1) / row.block_size; };
  if (column_after(after) >= static_cast<long long>(row.table.size())) {
    result.out_of_range = true;
    return result;
  }
  result.final_block = row.table[static_cast<std::size_t>(column_after(after))];
  if (result.final_block <= row.null_id) return dead;
  // The first block edge behind the tokens already computed.
  const long long into_block = row.computed % row.block_size;
  result.boundary_len = static_cast<int>(row.block_size - into_block);
  if (kept >= result.boundary_len) {
    result.boundary_block = row.table[static_cast<std::size_t>(column_after(row.computed + result.boundary_len))];
  }
  return result;
}

}  // namespace reference
