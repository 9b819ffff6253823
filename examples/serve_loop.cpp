// An engine's loop over the session layer: requests arrive, are prefilled in chunks, speculate with drafts looked up in their own text
// and end at a stop token. The model is a toy with random weights; its text is the same with and without drafts, which is checked.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <random>
#include <recoverssm/recoverssm.hpp>
#include <vector>

namespace rs = recoverssm;
using Floats = std::vector<float>;
using Text = std::vector<int>;

constexpr int kLayers = 2, H = 1, HV = 2, K = 16, V = 16, C = 2 * H * K + HV * V, W = 4;
constexpr int kHidden = 32, kVocabulary = 24, kStop = 8, kWindow = 4, kChunk = 8, kMostTokens = 60, kBlocks = 4;

// ---- the model: embedding, two gated delta rule layers between matrices, logits ---------------------------------------------------

struct Layer {
  Floats x, a, b, out, conv, A_log, dt_bias;  // x, a, b: [.., kHidden] projections, out: back to hidden
};

struct Model {
  Floats embedding, logits;
  std::vector<Layer> layers;

  Model() {
    std::mt19937 random(7);
    const auto table = [&random](int rows, int columns) {
      std::normal_distribution<float> normal(0, 1.0F / 4);
      Floats values(static_cast<std::size_t>(rows * columns));
      for (float& value : values) value = normal(random);
      return values;
    };
    embedding = table(kVocabulary, kHidden), logits = table(kVocabulary, kHidden);
    for (int l = 0; l < kLayers; ++l) {
      layers.push_back({table(C, kHidden), table(HV, kHidden), table(HV, kHidden), table(kHidden, HV * V), table(C, W), table(HV, 1),
                        table(HV, 1)});
    }
  }
};

// [n, columns] times the transpose of [rows, columns].
Floats multiply(const Floats& input, const Floats& matrix, int columns) {
  const std::size_t width = static_cast<std::size_t>(columns), rows = matrix.size() / width, n = input.size() / width;
  Floats result(n * rows);
  for (std::size_t i = 0; i < n * rows; ++i) {
    for (std::size_t c = 0; c < width; ++c) result[i] += input[i / rows * width + c] * matrix[i % rows * width + c];
  }
  return result;
}

rs::TensorView view(Floats& values, std::initializer_list<std::int64_t> shape) { return {values.data(), rs::DType::f32, shape}; }

rs::SessionConfig session_config(Model& model) {
  rs::SessionConfig config{.layers = {}, .groups = {{.blocks = kBlocks + 1}}, .window_capacity = kWindow};  // block 0 is the null block
  for (Layer& layer : model.layers) {
    config.layers.push_back({.H = H, .HV = HV, .K = K, .V = V, .W = W, .activation = rs::DType::f32, .weight = view(layer.conv, {C, W}),
                             .A_log = view(layer.A_log, {HV}), .dt_bias = view(layer.dt_bias, {HV})});
  }
  return config;
}

// Runs the step's tokens through all layers. Returns the most likely next token after each.
Text forward(Model& model, rs::Session& session, rs::StepId step, const Text& tokens, rs::Context& context) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  Floats hidden;
  for (const int token : tokens) {
    const auto row = model.embedding.begin() + token * kHidden;
    hidden.insert(hidden.end(), row, row + kHidden);
  }
  for (int l = 0; l < kLayers; ++l) {
    const Layer& layer = model.layers[static_cast<std::size_t>(l)];
    Floats x = multiply(hidden, layer.x, kHidden), a = multiply(hidden, layer.a, kHidden), b = multiply(hidden, layer.b, kHidden);
    Floats out(static_cast<std::size_t>(n * HV * V));
    session.forward(step, l,
                    rs::DeltaInputs{view(x, {n, C}), view(a, {n, HV}), view(b, {n, HV}), view(out, {n, HV, V})}, context);
    const Floats back = multiply(out, layer.out, HV * V);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] += 8 * back[i];
  }
  const Floats scores = multiply(hidden, model.logits, kHidden);
  Text next;
  for (auto row = scores.begin(); row != scores.end(); row += kVocabulary) {
    next.push_back(static_cast<int>(std::max_element(row, row + kVocabulary) - row));
  }
  return next;
}

// ---- the engine -------------------------------------------------------------------------------------------------------------------

struct Request {
  std::size_t index;     // which prompt
  Text text;             // prompt and what was generated
  rs::RequestId id = 0;  // 0: waiting
};

// What followed the last two tokens the last time they occurred.
Text look_up(const Text& text, std::size_t most) {
  const std::size_t n = text.size();
  for (std::size_t i = n - 2; i >= 2 && n > 3; --i) {
    if (text[i - 2] != text[n - 2] || text[i - 1] != text[n - 1]) continue;
    return {text.begin() + static_cast<long>(i), text.begin() + static_cast<long>(std::min(i + most, n))};
  }
  return {};
}

std::vector<Text> serve(Model& model, const std::vector<Text>& prompts, bool speculate) {
  rs::Context context(2);
  rs::Session session(session_config(model));
  std::deque<Request> waiting;
  for (std::size_t i = 0; i < prompts.size(); ++i) waiting.push_back({i, prompts[i]});
  std::vector<Request> active;
  std::vector<Text> texts(prompts.size());

  while (!active.empty() || !waiting.empty()) {
    std::vector<rs::StepRow> rows;
    Text tokens;
    const auto add_row = [&](const Request& request) {
      const auto computed = static_cast<std::size_t>(session.info(request.id).tokens);
      const std::size_t left = request.text.size() - computed;  // tokens the model has not seen
      Text row(request.text.begin() + static_cast<long>(computed), request.text.end());
      const bool prefill = left > 1 || computed == 0;
      if (prefill) row.resize(std::min<std::size_t>(left, kChunk));
      const Text drafts = speculate && !prefill ? look_up(request.text, kWindow - 1) : Text{};
      row.insert(row.end(), drafts.begin(), drafts.end());
      rows.push_back({request.id, prefill ? rs::RowKind::prefill : rs::RowKind::window, static_cast<std::int32_t>(row.size()),
                      static_cast<std::int64_t>(computed)});
      tokens.insert(tokens.end(), row.begin(), row.end());
    };
    for (const Request& request : active) add_row(request);
    while (!waiting.empty() && active.size() < kBlocks) {  // each takes one block for as long as it lives
      active.push_back(std::move(waiting.front()));
      waiting.pop_front();
      active.back().id = session.admit();
      add_row(active.back());
    }

    const rs::StepId step = session.open_step(rows, context);
    const Text next = forward(model, session, step, tokens, context);

    // A draft is right if the token before it predicts it. What is kept is what is emitted: nothing after a stop token.
    std::vector<rs::Accepted> accepted;
    std::size_t start = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      Text& text = active[r].text;
      const auto length = static_cast<std::size_t>(rows[r].tokens);
      const std::size_t seen = static_cast<std::size_t>(rows[r].num_computed) + length;
      std::size_t kept = rows[r].kind == rs::RowKind::window ? 1 : length;
      while (kept < length && next[start + kept - 1] == tokens[start + kept] && tokens[start + kept] != kStop) {
        text.push_back(tokens[start + kept++]);
      }
      if (rows[r].kind == rs::RowKind::window) accepted.push_back({rows[r].request, static_cast<std::int32_t>(kept)});
      if (rows[r].kind == rs::RowKind::window || seen == text.size()) text.push_back(next[start + kept - 1]);  // a new token
      start += length;
    }
    session.commit(step, accepted, context);

    std::erase_if(active, [&](Request& request) {
      if (request.text.back() != kStop && request.text.size() < kMostTokens) return false;
      if (request.text.size() <= prompts[request.index].size()) return false;
      session.finish(request.id);
      request.text.resize(std::min<std::size_t>(request.text.size(), kMostTokens));  // a last window may run past the limit
      texts[request.index] = std::move(request.text);
      return true;
    });
  }
  const rs::SessionCounters& counters = session.counters();
  std::printf("%s drafts: %ld steps, %ld of %ld window tokens kept, %ld calls refused\n", speculate ? "with   " : "without",
              static_cast<long>(counters.steps_committed), static_cast<long>(counters.kept_tokens),
              static_cast<long>(counters.verified_tokens), static_cast<long>(counters.refused_calls));
  return texts;
}

int main() try {
  Model model;
  std::mt19937 random(3);
  std::vector<Text> prompts(10);
  for (Text& prompt : prompts) {
    prompt.resize(3 + random() % 30);
    for (int& token : prompt) token = 1 + static_cast<int>(random() % (kVocabulary - 1));
  }
  const std::vector<Text> plain = serve(model, prompts, false), speculative = serve(model, prompts, true);
  std::size_t tokens = 0;
  for (const Text& text : plain) tokens += text.size();
  std::printf("%zu requests, %zu tokens: %s text\n", prompts.size(), tokens, plain == speculative ? "the same" : "ANOTHER");
  return plain == speculative ? 0 : 1;
} catch (const rs::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
