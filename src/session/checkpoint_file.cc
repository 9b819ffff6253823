// Checkpoint files: written beside, flushed, renamed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "session/checkpoint_format.h"

namespace recoverssm {
namespace {

[[noreturn]] void refuse(const char* call, const std::string& path, const char* what, int error) {
  throw Error({ErrorKind::device_error, std::string(call) + ": " + path + ": " + what + ": " + std::strerror(error) +
                                            ", expected a file that can be " + (call[0] == 'w' ? "written" : "read")});
}

struct File {
  int descriptor = -1;
  explicit File(int descriptor_) : descriptor(descriptor_) {}
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
};

// Returns the error, 0 for none.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return fsync(descriptor) == 0 ? 0 : errno;
}

// Fills `bytes` from the file's current position on. Returns how many there were.
std::size_t read_all(int descriptor, const std::string& path, std::span<std::byte> bytes) {
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = read(descriptor, bytes.data() + got, bytes.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse("read_checkpoint", path, "read", errno);
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  return got;
}

// A new file beside `path`. Numbers keep this process's threads apart; O_EXCL keeps others away that have the same id, in another
// container on the same disk, and what such a one left behind.
int create_partial(const std::string& path, std::string& partial) {
  static std::atomic<std::uint64_t> writes = 0;
  int descriptor = -1;
  do {
    partial = path + "." + std::to_string(getpid()) + "." + std::to_string(++writes) + ".partial";
    descriptor = open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  return descriptor;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

void write_checkpoint(const std::string& path, std::span<const std::byte> checkpoint) {
  constexpr const char* kCall = "write_checkpoint";
  (void)inspect_checkpoint(checkpoint);
  std::string partial;
  {
    const File file(create_partial(path, partial));
    if (file.descriptor < 0) refuse(kCall, partial, "open", errno);
    if (const int error = write_all(file.descriptor, checkpoint); error != 0) {
      unlink(partial.c_str());
      refuse(kCall, partial, "write", error);
    }
  }
  if (rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(partial.c_str());
    refuse(kCall, path, "rename", error);
  }
  // The new name must reach the disk, too. A file system that can't flush a folder has no better promise to give.
  const File folder(open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.descriptor >= 0) (void)fsync(folder.descriptor);
}

std::vector<std::byte> read_checkpoint(const std::string& path) {
  constexpr const char* kCall = "read_checkpoint";
  const File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // a pipe must not wait for its writer
  if (file.descriptor < 0) refuse(kCall, path, "open", errno);
  struct stat status {};
  if (fstat(file.descriptor, &status) != 0) refuse(kCall, path, "stat", errno);
  if (!S_ISREG(status.st_mode)) refuse(kCall, path, "read", EINVAL);
  // The header first: a file of another kind may be larger than memory.
  std::vector<std::byte> bytes(std::min(static_cast<std::size_t>(status.st_size), sizeof(CheckpointHeader)));
  bytes.resize(read_all(file.descriptor, path, bytes));
  const std::size_t begin = bytes.size();
  if (begin == sizeof(CheckpointHeader)) {
    (void)checkpoint_header(bytes, status.st_size);
    bytes.resize(static_cast<std::size_t>(status.st_size));
    bytes.resize(begin + read_all(file.descriptor, path, std::span(bytes).subspan(begin)));
  }
  (void)inspect_checkpoint(bytes);
  return bytes;
}

}  // namespace recoverssm
