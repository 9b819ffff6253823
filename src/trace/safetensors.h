// Safetensors files: a header of named tensors, then their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "recoverssm/types.hpp"
#include "trace/malformed.h"

namespace recoverssm::trace {

// One tensor of a file, dense, last dimension fastest. `bytes` have no particular alignment.
struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;            // the limit of the safetensors format itself
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{16} << 30;  // files are read into memory whole
constexpr std::int64_t kMaxElements = std::int64_t{1} << 34;      // of one tensor or view

// A file's contents. Every offset, shape and size has been checked: the tensors lie in the file one after another, without holes.
class SafetensorsFile {
 public:
  // Reads a regular file into memory. Throws Malformed.
  static SafetensorsFile read(const std::string& path);
  // Takes the bytes of a file. Throws Malformed.
  static SafetensorsFile parse(std::unique_ptr<std::byte[]> bytes, std::uint64_t size);

  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;

 private:
  std::unique_ptr<std::byte[]> storage_;
  std::map<std::string, std::string, std::less<>> metadata_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// The bytes of a file with this content. Tensors with larger elements come first, so that all are aligned to their element size.
std::vector<std::byte> safetensors_bytes(const std::map<std::string, std::string>& metadata,
                                         const std::map<std::string, Tensor>& tensors);

// Writes a temporary file beside `path` and renames it. Throws Error(device_error) with the system's reason.
void write_file(const std::string& path, std::span<const std::byte> bytes);

// Elements of a dense shape. Throws Malformed, beginning with `place`, for a negative dimension or more than kMaxElements (counting
// dimensions of 0 as 1: no partial product may overflow).
std::int64_t count_elements(std::span<const std::int64_t> shape, const std::string& place);

}  // namespace recoverssm::trace
