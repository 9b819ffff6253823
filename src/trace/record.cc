#include "trace/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "trace/document.h"
#include "trace/element.h"

namespace recoverssm::trace {

using nlohmann::json;

namespace {

[[noreturn]] void refuse(std::string message) { throw Error({ErrorKind::invalid_argument, "Recorder: " + std::move(message)}); }

}  // namespace

Recorder::Recorder(const std::string& name)
    : document_({{"name", name}, {"buffers", json::object()}, {"calls", json::array()}, {"finally", json::array()}}) {}

void Recorder::add_buffer(const std::string& name, DType dtype, const void* data, std::int64_t elements) {
  if (document_["buffers"].contains(name)) refuse(fmt::format("buffer \"{}\" twice", name));
  const auto* first = static_cast<const std::byte*>(data);
  buffers_.push_back({name, dtype, first, elements});
  add_tensor(name + ".init", dtype, {elements}, {first, first + elements * size_of(dtype)});
  document_["buffers"][name] = {{"dtype", safetensors_name(dtype)}, {"elements", elements}, {"init", name + ".init"}};
}

json Recorder::view(const TensorView& view) const {
  if (!view.present()) return nullptr;
  std::vector<std::int64_t> shape, strides;
  std::int64_t lowest = 0, highest = 0;
  for (int d = 0; d < view.dims; ++d) {
    const auto i = static_cast<std::size_t>(d);
    shape.push_back(view.shape[i]);
    strides.push_back(view.stride[i]);
    if (!view.empty()) (view.stride[i] < 0 ? lowest : highest) += (view.shape[i] - 1) * view.stride[i];
  }
  const auto* data = static_cast<const std::byte*>(view.data);
  const std::int64_t size = size_of(view.dtype);
  for (const Buffer& buffer : buffers_) {
    if (buffer.dtype != view.dtype) continue;
    std::int64_t offset = 0;  // an empty view may have no address
    if (!view.empty()) {
      const std::ptrdiff_t from = data - buffer.data;
      offset = from / size;
      if (from % size != 0 || offset + lowest < 0 || offset + highest >= buffer.elements) continue;
    }
    return {{"buffer", buffer.name}, {"offset", offset}, {"shape", shape}, {"strides", strides}};
  }
  refuse(fmt::format("no {} buffer holds this view", name_of(view.dtype)));
}

void Recorder::add_call(const std::string& id, const std::string& op, json arguments) {
  document_["calls"].push_back(
      {{"id", id}, {"op", op}, {"args", std::move(arguments)}, {"expect", json::array()}, {"error", nullptr}});
}

json& Recorder::last_call() {
  if (document_["calls"].empty()) refuse("an expectation before the first call");
  return document_["calls"].back();
}

void Recorder::expect(json expectation) { last_call()["expect"].push_back(std::move(expectation)); }

void Recorder::expect_bits(const TensorView& view_now) {
  expect({{"view", view(view_now)}, {"tensor", store(view_now)}, {"match", "bits"}});
}

void Recorder::expect_close(const TensorView& view_now, double rtol, double atol) {
  expect({{"view", view(view_now)}, {"tensor", store(view_now)}, {"match", {{"rtol", rtol}, {"atol", atol}}}});
}

void Recorder::expect_error(ErrorKind kind, std::vector<std::string> mentions) {
  last_call()["error"] = {{"kind", name_of(kind)}, {"mentions", std::move(mentions)}};
}

void Recorder::finally(json expectation) { document_["finally"].push_back(std::move(expectation)); }

void Recorder::add_tensor(const std::string& name, DType dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes) {
  contents_.push_back(std::move(bytes));
  if (!tensors_.emplace(name, Tensor{dtype, std::move(shape), contents_.back()}).second)
    refuse(fmt::format("tensor \"{}\" twice", name));
}

std::string Recorder::store(const TensorView& view) {
  std::vector<std::int64_t> shape;
  for (int d = 0; d < view.dims; ++d) shape.push_back(view.shape[static_cast<std::size_t>(d)]);
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  std::vector<std::byte> dense(static_cast<std::size_t>(view.elements()) * size);
  for (std::int64_t i = 0; i < view.elements(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (auto d = static_cast<std::size_t>(view.dims); d-- > 0;) {
      offset += rest % view.shape[d] * view.stride[d];
      rest /= view.shape[d];
    }
    const std::byte* element = static_cast<const std::byte*>(view.data) + offset * static_cast<std::int64_t>(size);
    std::memcpy(dense.data() + static_cast<std::size_t>(i) * size, element, size);
  }
  const std::string name = fmt::format("want.{}", contents_.size());
  add_tensor(name, view.dtype, std::move(shape), std::move(dense));
  return name;
}

std::vector<std::byte> Recorder::bytes() const {
  std::vector<std::byte> file = safetensors_bytes({{kVersionKey, kVersion}, {kDocumentKey, document_.dump()}}, tensors_);
  auto copy = std::make_unique_for_overwrite<std::byte[]>(file.size());
  std::copy(file.begin(), file.end(), copy.get());
  parse_trace(SafetensorsFile::parse(std::move(copy), file.size()));
  return file;
}

void Recorder::write(const std::string& path) const { write_file(path, bytes()); }

}  // namespace recoverssm::trace
