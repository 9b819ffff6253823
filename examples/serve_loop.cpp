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
constexpr int kVocabulary = 24, kStop = 8, kWindow = 4, kChunk = 8, kMostTokens = 60, kBlocks = 4;

// ---- the model: every layer reads the tokens, the scores of the next token read every layer ---------------------------------------

struct Layer {
  Floats x, a, b;  // what the layer's projections give for each token of the vocabulary
  Floats conv, A_log, dt_bias, scores;
};

std::vector<Layer> random_model() {
  std::mt19937 random(7);
  const auto table = [&random](int rows, int columns) {
    std::normal_distribution<float> normal(0, 1);
    Floats values(static_cast<std::size_t>(rows * columns));
    for (float& value : values) value = normal(random);
    return values;
  };
  std::vector<Layer> layers;
  for (int l = 0; l < kLayers; ++l) {
    layers.push_back({table(kVocabulary, C), table(kVocabulary, HV), table(kVocabulary, HV), table(C, W), table(HV, 1), table(HV, 1),
                      table(kVocabulary, HV * V)});
  }
  return layers;
}

rs::TensorView view(Floats& values, std::initializer_list<std::int64_t> shape) { return {values.data(), rs::DType::f32, shape}; }

rs::SessionConfig session_config(std::vector<Layer>& model) {
  rs::SessionConfig config{.layers = {}, .groups = {{.blocks = kBlocks + 1}}, .window_capacity = kWindow};  // block 0 is the null block
  for (Layer& layer : model) {
    config.layers.push_back({.H = H, .HV = HV, .K = K, .V = V, .W = W, .activation = rs::DType::f32, .weight = view(layer.conv, {C, W}),
                             .A_log = view(layer.A_log, {HV}), .dt_bias = view(layer.dt_bias, {HV})});
  }
  return config;
}

Floats rows_of(const Floats& table, const Text& tokens) {
  const auto width = static_cast<long>(table.size()) / kVocabulary;
  Floats rows;
  for (const int token : tokens) rows.insert(rows.end(), table.begin() + token * width, table.begin() + (token + 1) * width);
  return rows;
}

// Runs the step's tokens through all layers. Returns the most likely next token after each.
Text forward(std::vector<Layer>& model, rs::Session& session, rs::StepId step, const Text& tokens, rs::Context& context) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  Floats scores(tokens.size() * kVocabulary), out(tokens.size() * HV * V);
  for (std::size_t l = 0; l < kLayers; ++l) {
    Floats x = rows_of(model[l].x, tokens), a = rows_of(model[l].a, tokens), b = rows_of(model[l].b, tokens);
    session.forward(step, static_cast<std::int32_t>(l),
                    rs::DeltaInputs{view(x, {n, C}), view(a, {n, HV}), view(b, {n, HV}), view(out, {n, HV, V})}, context);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      for (std::size_t v = 0; v < HV * V; ++v) {
        scores[i] += out[i / kVocabulary * HV * V + v] * model[l].scores[i % kVocabulary * HV * V + v];
      }
    }
  }
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

std::vector<Text> serve(std::vector<Layer>& model, const std::vector<Text>& prompts, bool speculate) {
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
  std::vector<Layer> model = random_model();
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
