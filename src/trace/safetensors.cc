#include "trace/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trace/element.h"
#include "trace/json.h"

namespace recoverssm::trace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian, and so is this reader");

using nlohmann::json;

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string system_reason() { return std::strerror(errno); }

struct Range {
  std::uint64_t begin, end;
  const std::string* name;
};

// Throws unless the ranges, one after another, fill 0..size.
void check_ranges(std::vector<Range> ranges, std::uint64_t size) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& x, const Range& y) { return std::pair(x.begin, x.end) < std::pair(y.begin, y.end); });
  std::uint64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin != at) {
      throw Malformed(fmt::format("tensor {}: data_offsets begin at {}, expected {} ({})", *range.name, range.begin, at,
                                  range.begin < at ? "tensors overlap" : "a hole before it"));
    }
    at = range.end;
  }
  if (at != size) throw Malformed(fmt::format("the file has {} bytes of data, its tensors {}", size, at));
}

}  // namespace

std::int64_t count_elements(std::span<const std::int64_t> shape, const std::string& place) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t n : shape) {
    if (n < 0) throw Malformed(fmt::format("{}: shape [{}] has a negative dimension", place, fmt::join(shape, ", ")));
    if (n == 0) {
      empty = true;
    } else if (n > kMaxElements / product) {
      throw Malformed(fmt::format("{}: shape [{}] has more than {} elements", place, fmt::join(shape, ", "), kMaxElements));
    } else {
      product *= n;
    }
  }
  return empty ? 0 : product;
}

SafetensorsFile SafetensorsFile::read(const std::string& path) {
  // Non-blocking, so that a named pipe is refused instead of waited for. Not mapped: another process may truncate the file.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw Malformed("cannot open: " + system_reason());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw Malformed("cannot read: " + system_reason());
  if (!S_ISREG(info.st_mode)) throw Malformed("not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > kMaxFileBytes) throw Malformed(fmt::format("{} bytes, files of more than {} are refused", size, kMaxFileBytes));
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  for (std::uint64_t at = 0; at < size;) {
    const ssize_t got = ::read(file.get(), bytes.get() + at, size - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Malformed("cannot read: " + system_reason());
    if (got == 0) throw Malformed("the file became shorter while it was read");
    at += static_cast<std::uint64_t>(got);
  }
  return parse(std::move(bytes), size);
}

SafetensorsFile SafetensorsFile::parse(std::unique_ptr<std::byte[]> bytes, std::uint64_t size) {
  if (size < 8) throw Malformed(fmt::format("{} bytes, a safetensors file has at least 8", size));
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.get(), sizeof header_size);
  if (header_size > kMaxHeaderBytes) {
    throw Malformed(fmt::format("header of {} bytes, at most {} are allowed", header_size, kMaxHeaderBytes));
  }
  if (header_size > size - 8) throw Malformed(fmt::format("header of {} bytes in a file of {}", header_size, size));
  const std::string_view text(reinterpret_cast<const char*>(bytes.get()) + 8, header_size);
  if (text.empty() || text.front() != '{') throw Malformed("header: does not begin with {");
  const json header = parse_json(text, "header");

  const std::byte* data = bytes.get() + 8 + header_size;
  const std::uint64_t data_size = size - 8 - header_size;
  SafetensorsFile file;
  std::vector<Range> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) throw Malformed("__metadata__: expected an object");
      for (const auto& [key, value] : entry.items()) file.metadata_.emplace(key, string_at(value, "__metadata__." + key));
      continue;
    }
    const std::string place = "tensor " + name;
    check_names(entry, place, {"dtype", "shape", "data_offsets"});
    const std::string& dtype_name = string_at(entry["dtype"], place + ": dtype");
    const auto dtype = dtype_named(dtype_name);
    if (!dtype) {
      throw Malformed(fmt::format("{}: dtype {}, expected BF16, F16, F32, F64, I32, I64, U8 or BOOL", place, dtype_name));
    }
    Tensor tensor;
    tensor.dtype = *dtype;
    for (const json& n : array_at(entry["shape"], place + ": shape")) tensor.shape.push_back(integer_at(n, place + ": shape", 0));
    const auto wanted = static_cast<std::uint64_t>(count_elements(tensor.shape, place) * size_of(*dtype));
    const auto& offsets = array_at(entry["data_offsets"], place + ": data_offsets");
    if (offsets.size() != 2) throw Malformed(fmt::format("{}: {} data_offsets, expected 2", place, offsets.size()));
    const auto highest = static_cast<std::int64_t>(data_size);
    const auto begin = static_cast<std::uint64_t>(integer_at(offsets[0], place + ": data_offsets", 0, highest));
    const auto end = static_cast<std::uint64_t>(integer_at(offsets[1], place + ": data_offsets", 0, highest));
    if (end < begin || end - begin != wanted) {
      throw Malformed(fmt::format("{}: data_offsets [{}, {}], expected {} bytes", place, begin, end, wanted));
    }
    tensor.bytes = {data + begin, wanted};
    const auto at = file.tensors_.emplace(name, std::move(tensor)).first;
    ranges.push_back({begin, end, &at->first});
  }
  check_ranges(std::move(ranges), data_size);
  file.storage_ = std::move(bytes);
  return file;
}

const Tensor* SafetensorsFile::find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

std::vector<std::byte> safetensors_bytes(const std::map<std::string, std::string>& metadata,
                                         const std::map<std::string, Tensor>& tensors) {
  std::vector<std::pair<const std::string*, const Tensor*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&name, &tensor);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& x, const auto& y) { return size_of(x.second->dtype) > size_of(y.second->dtype); });

  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t data_size = 0;
  for (const auto& [name, tensor] : order) {
    header[*name] = {{"dtype", safetensors_name(tensor->dtype)},
                     {"shape", tensor->shape},
                     {"data_offsets", {data_size, data_size + tensor->bytes.size()}}};
    data_size += tensor->bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');

  std::vector<std::byte> bytes;
  bytes.reserve(8 + text.size() + data_size);
  const auto append = [&](const void* from, std::size_t count) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + count);
  };
  const std::uint64_t header_size = text.size();
  append(&header_size, sizeof header_size);
  append(text.data(), text.size());
  for (const auto& [name, tensor] : order) append(tensor->bytes.data(), tensor->bytes.size());
  return bytes;
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const auto fail = [&](const char* what) {
    const std::string reason = system_reason();
    ::unlink(temporary.c_str());
    throw Error({ErrorKind::device_error, fmt::format("{}: cannot {}: {}", path, what, reason)});
  };
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0) fail("create");
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t written = ::write(file.get(), bytes.data() + at, bytes.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write");
      at += static_cast<std::size_t>(written);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename");
}

}  // namespace recoverssm::trace
