// Builds a trace from live memory and writes it: what an engine calls around its own operation calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "recoverssm/types.hpp"
#include "trace/safetensors.h"

namespace recoverssm::trace {

// Order of use: add every buffer, then for each call `add_call` before or after it runs, and after it has run what it must give.
//
//   Recorder recorder("my session");
//   recorder.add_buffer("state", DType::f32, pool, elements);            // contents are copied now
//   recorder.add_call("s0.verify", "gated_delta_rule_verify", {{"q", recorder.view(params.inputs.q)}, ...});
//   run(params, launch);
//   recorder.expect_bits(params.out);                                    // contents are copied now
//   recorder.write("my.rst.safetensors");
//
// Throws Error(invalid_argument) for a name given twice, or a view outside the buffers.
class Recorder {
 public:
  explicit Recorder(const std::string& name);

  // Of the document beside buffers and calls: description, source, geometry, mode, backends may be set here.
  nlohmann::json& document() { return document_; }

  // Memory that calls' views point into, with what it holds now. It must stay where it is.
  void add_buffer(const std::string& name, DType dtype, const void* data, std::int64_t elements);

  // The JSON form of a view: the buffer that holds it, offset, shape, strides. null for an absent view.
  nlohmann::json view(const TensorView& view) const;

  // `arguments`: an object with the names of docs/traces.md.
  void add_call(const std::string& id, const std::string& op, nlohmann::json arguments);

  // Of the last call added.
  void expect_bits(const TensorView& view);
  void expect_close(const TensorView& view, double rtol, double atol);
  void expect(nlohmann::json expectation);  // any other: {"view": ..., "same_as": ...}
  void expect_error(ErrorKind kind, std::vector<std::string> mentions);

  // After the last call.
  void finally(nlohmann::json expectation);

  // The file. Throws Malformed if what was recorded is no trace: an argument missing, a name unknown.
  std::vector<std::byte> bytes() const;
  // Also Error(device_error) if it cannot be written.
  void write(const std::string& path) const;

 private:
  struct Buffer {
    std::string name;
    DType dtype;
    const std::byte* data;
    std::int64_t elements;
  };

  nlohmann::json& last_call();
  void add_tensor(const std::string& name, DType dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes);
  // Copies a view's elements to a new tensor; gives its name.
  std::string store(const TensorView& view);

  nlohmann::json document_;
  std::vector<Buffer> buffers_;
  std::map<std::string, Tensor> tensors_;
  std::vector<std::vector<std::byte>> contents_;  // of the tensors
};

}  // namespace recoverssm::trace
