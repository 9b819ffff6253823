// Writing a checkpoint over another one, and being stopped: killed at any time, out of space, from two threads. At every moment the file
// is one of the checkpoints, whole.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "recoverssm/recoverssm.hpp"

namespace session_tests {
namespace {

using namespace recoverssm;
using Bytes = std::vector<std::byte>;
namespace fs = std::filesystem;

// A layer with a state of `heads` * 64 KiB, 8 heads at most.
SessionConfig config_of(std::int32_t heads) {
  static float parameters[8] = {};
  SessionConfig config;
  config.layers.push_back({.H = 1, .HV = heads, .K = 128, .V = 128});
  config.layers[0].A_log = config.layers[0].dt_bias = TensorView(parameters, DType::f32, {heads});
  config.groups.push_back({.blocks = 2});
  return config;
}

// Checkpoints of different states, counts and tags (both their index + 1), and a session that takes them back.
class Checkpoints {
 public:
  Checkpoints(std::int32_t heads, int count) : session_(config_of(heads)), request_(session_.admit()) {
    Context context;
    std::vector<float> x(static_cast<std::size_t>(2 + heads) * 128), gates(static_cast<std::size_t>(heads)), out(x.size());
    std::vector<std::uint16_t> x16(x.size(), 0x3F80), gates16(gates.size(), 0x3F00);  // 1 and 0.5 in bf16
    for (int i = 0; i < count; ++i) {
      const StepRow row{request_, i == 0 ? RowKind::prefill : RowKind::decode, 1, -1};
      const StepId step = session_.open_step({&row, 1}, context);
      const auto n = static_cast<std::int64_t>(x16.size());
      session_.forward(step, 0,
                       {.x = TensorView(x16.data(), DType::bf16, {1, n}),
                        .a = TensorView(gates16.data(), DType::bf16, {1, heads}),
                        .b = TensorView(gates16.data(), DType::bf16, {1, heads}),
                        .out = TensorView(out.data(), DType::f32, {1, heads, 128})},
                       context);
      session_.commit(step, {}, context);
      all.push_back(session_.export_checkpoint(request_, i + 1, static_cast<std::uint64_t>(i) + 1, context));
    }
  }

  // Its index, or -1 for bytes that are none of them. One that is, is restored as well.
  int which(const Bytes& bytes) {
    const auto at = std::ranges::find(all, bytes);
    if (at == all.end()) return -1;
    const auto index = static_cast<int>(at - all.begin());
    session_.preempt(request_);
    session_.restore(request_, bytes, index + 1, static_cast<std::uint64_t>(index) + 1);
    return index;
  }

  std::vector<Bytes> all;

 private:
  Session session_;
  RequestId request_;
};

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "recoverssm-checkpoints-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for checkpoints: " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file() const { return path_ / "state.ckpt"; }
  // All files but file().
  std::vector<fs::path> others() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path() != fs::path(file())) found.push_back(entry.path());
    }
    return found;
  }

 private:
  fs::path path_;
};

Bytes contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

struct Leftovers {
  int whole = 0, cut = 0;
};

// What a killed writer left beside the file: whole, or refused. Removes it.
Leftovers check_leftovers(const Folder& folder, Checkpoints& checkpoints) {
  Leftovers left;
  for (const fs::path& path : folder.others()) {
    EXPECT_EQ(path.extension(), ".partial");
    const Bytes bytes = contents(path);
    ++(checkpoints.which(bytes) < 0 ? left.cut : left.whole);
    if (left.cut > 0) {
      EXPECT_THROW((void)read_checkpoint(path), Error) << bytes.size() << " bytes";
    }
    fs::remove(path);
  }
  return left;
}

// Runs body in a child process; its status for waitpid.
template <class Body>
pid_t in_child(Body&& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(60);
  body();
  _exit(0);
}

TEST(CheckpointFile, SurvivesKills) {
  constexpr int kKills = 150;
  Checkpoints checkpoints(8, 4);
  const Folder folder;
  write_checkpoint(folder.file(), checkpoints.all[0]);
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  int before = 0, changed = 0;
  Leftovers left;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    int started[2];
    ASSERT_EQ(pipe(started), 0);
    const pid_t child = in_child([&] {
      (void)!write(started[1], "", 1);
      for (std::size_t i = random() % 4;; ++i) write_checkpoint(folder.file(), checkpoints.all[i % 4]);
    });
    ASSERT_GT(child, 0);
    char byte = 0;
    ASSERT_EQ(read(started[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    close(started[0]), close(started[1]);
    const int now = checkpoints.which(read_checkpoint(folder.file()));
    ASSERT_GE(now, 0) << "kill " << kill_number << ", seed " << seed;
    changed += now != before ? 1 : 0;
    before = now;
    const auto [whole, cut] = check_leftovers(folder, checkpoints);
    left.whole += whole, left.cut += cut;
  }
  std::printf("%d kills: the file had another checkpoint %d times, a whole one lay beside it %d times, a cut one %d times\n",
              kKills, changed, left.whole, left.cut);
  EXPECT_GT(changed + left.whole + left.cut, kKills / 10) << "the kills came between the writes";
}

// Killed at each of a hundred bytes of the file, by the system itself: SIGXFSZ.
TEST(CheckpointFile, SurvivesAKillAtAnyByte) {
  Checkpoints checkpoints(1, 2);
  const Folder folder;
  write_checkpoint(folder.file(), checkpoints.all[0]);
  const std::size_t size = checkpoints.all[1].size();
  for (std::size_t limit = 0; limit < size; limit = limit < 200 ? limit + 7 : limit + size / 90) {
    const pid_t child = in_child([&] {
      const rlimit none{0, 0}, bytes{limit, limit};
      setrlimit(RLIMIT_CORE, &none);
      setrlimit(RLIMIT_FSIZE, &bytes);
      write_checkpoint(folder.file(), checkpoints.all[1]);
    });
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
    EXPECT_EQ(checkpoints.which(read_checkpoint(folder.file())), 0) << limit;
    ASSERT_EQ(folder.others().size(), 1U);
    EXPECT_EQ(fs::file_size(folder.others()[0]), limit);
    EXPECT_EQ(check_leftovers(folder, checkpoints).cut, 1);
  }
  write_checkpoint(folder.file(), checkpoints.all[1]);
  EXPECT_EQ(checkpoints.which(read_checkpoint(folder.file())), 1);
}

std::string refusal(const std::string& path, const Bytes& bytes) {
  try {
    write_checkpoint(path, bytes);
  } catch (const Error& error) {
    return std::string(name_of(error.kind())) + " " + error.what();
  }
  return "accepted";
}

TEST(CheckpointFile, AFailedWriteChangesNothing) {
  Checkpoints checkpoints(1, 2);
  const Folder folder;
  write_checkpoint(folder.file(), checkpoints.all[0]);
  // No room: the system refuses in the middle of the file.
  const pid_t child = in_child([&] {
    const rlimit bytes{5000, 5000};
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &bytes);
    const std::string text = refusal(folder.file(), checkpoints.all[1]);
    _exit(text.find("device_error write_checkpoint: ") == 0 && text.find("File too large") != std::string::npos ? 7 : 1);
  });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  EXPECT_EQ(checkpoints.which(read_checkpoint(folder.file())), 0);
  EXPECT_TRUE(folder.others().empty());
  // No folder; a folder where the file should be.
  EXPECT_NE(refusal(folder.file() + "/below/it", checkpoints.all[1]).find("device_error write_checkpoint: "), std::string::npos);
  EXPECT_EQ(checkpoints.which(read_checkpoint(folder.file())), 0);
  fs::create_directory(folder.file() + ".folder");
  EXPECT_EQ(refusal(folder.file() + ".folder", checkpoints.all[1]).find("device_error write_checkpoint: "), 0U);
  fs::remove(folder.file() + ".folder");
  EXPECT_TRUE(folder.others().empty());
  // Bytes that are no checkpoint are not written at all.
  Bytes damaged = checkpoints.all[1];
  damaged[1000] ^= std::byte{1};
  EXPECT_EQ(refusal(folder.file(), damaged).find("invalid_argument checkpoint: checksum: "), 0U);
  EXPECT_EQ(checkpoints.which(read_checkpoint(folder.file())), 0);
  EXPECT_TRUE(folder.others().empty());
}

TEST(CheckpointFile, ThatIsNoneIsNotRead) {
  const Folder folder;
  const auto kind = [](const std::string& path) {
    try {
      (void)read_checkpoint(path);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::ok;
  };
  EXPECT_EQ(kind(folder.file()), ErrorKind::device_error);  // none there
  EXPECT_EQ(kind(fs::path(folder.file()).parent_path()), ErrorKind::device_error);
  std::ofstream(folder.file()).flush();
  EXPECT_EQ(kind(folder.file()), ErrorKind::invalid_argument);  // empty
  std::ofstream(folder.file())
      << "RSSMCKPT and a text of some length that is no checkpoint, but long enough to hold a header of one";
  EXPECT_NE(kind(folder.file()), ErrorKind::ok);
}

// A pipe nobody writes to, and a file larger than memory: refused, at once.
TEST(CheckpointFile, ThatCannotBeReadWholeIsRefusedAtOnce) {
  const Folder folder;
  ASSERT_EQ(mkfifo(folder.file().c_str(), 0600), 0);
  const pid_t child = in_child([&] {
    try {
      (void)read_checkpoint(folder.file());
    } catch (const Error& error) {
      _exit(error.kind() == ErrorKind::device_error ? 7 : 1);
    }
  });
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  fs::remove(folder.file());
  Checkpoints checkpoints(1, 1);
  write_checkpoint(folder.file(), checkpoints.all[0]);
  for (const std::uintmax_t size : {std::uintmax_t{1} << 40U, std::uintmax_t{checkpoints.all[0].size() + 1}}) {
    fs::resize_file(folder.file(), size);  // the rest is a hole, it takes no room
    try {
      (void)read_checkpoint(folder.file());
      ADD_FAILURE() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
    }
  }
}

// Files of another writer with this process's id (another container on the same disk) are not written into.
TEST(CheckpointFile, LeavesForeignPartialFilesAlone) {
  Checkpoints checkpoints(1, 1);
  const Folder folder;
  const auto partial = [&](int number) {
    return folder.file() + "." + std::to_string(getpid()) + "." + std::to_string(number) + ".partial";
  };
  constexpr int kFiles = 2000;  // more than this process has written so far
  for (int number = 1; number <= kFiles; ++number) std::ofstream(partial(number)) << "theirs";
  write_checkpoint(folder.file(), checkpoints.all[0]);
  EXPECT_EQ(checkpoints.which(read_checkpoint(folder.file())), 0);
  EXPECT_EQ(folder.others().size(), std::size_t{kFiles});
  for (int number = 1; number <= kFiles; ++number) EXPECT_EQ(fs::file_size(partial(number)), 6U) << number;
}

// Two threads that save to one path, a third that reads it.
TEST(CheckpointFile, FromTwoThreads) {
  Checkpoints checkpoints(4, 2);
  const Folder folder;
  write_checkpoint(folder.file(), checkpoints.all[0]);
  std::atomic<bool> stop = false;
  std::atomic<int> written = 0, failed = 0;
  std::vector<std::thread> writers;
  for (const Bytes& bytes : checkpoints.all) {
    writers.emplace_back([&] {
      while (!stop) {
        try {
          write_checkpoint(folder.file(), bytes);
          ++written;
        } catch (const Error&) {
          ++failed;
        }
      }
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  int reads = 0;
  for (; std::chrono::steady_clock::now() < end; ++reads) {
    const Bytes now = contents(folder.file());
    EXPECT_TRUE(std::ranges::find(checkpoints.all, now) != checkpoints.all.end()) << now.size() << " bytes, read " << reads;
    if (HasFailure()) break;
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(written, 1);
  EXPECT_GT(reads, 1);
}

}  // namespace
}  // namespace session_tests
