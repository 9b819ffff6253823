// Checkpoint files: written beside, flushed, renamed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "recoverssm/checkpoint.hpp"

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

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

void write_checkpoint(const std::string& path, std::span<const std::byte> checkpoint) {
  constexpr const char* kCall = "write_checkpoint";
  (void)inspect_checkpoint(checkpoint);
  static std::atomic<std::uint64_t> writes = 0;  // threads that write one path don't share a file
  const std::string partial = path + "." + std::to_string(getpid()) + "." + std::to_string(++writes) + ".partial";
  {
    const File file(open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
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
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.descriptor < 0) refuse(kCall, path, "open", errno);
  struct stat status {};
  if (fstat(file.descriptor, &status) != 0) refuse(kCall, path, "stat", errno);
  if (!S_ISREG(status.st_mode)) refuse(kCall, path, "read", EINVAL);
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = read(file.descriptor, bytes.data() + got, bytes.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(kCall, path, "read", errno);
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  bytes.resize(got);
  (void)inspect_checkpoint(bytes);
  return bytes;
}

}  // namespace recoverssm
