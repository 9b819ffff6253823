// The functions of recoverssm_context.
#include "c_api/context.h"

#include <memory>

#include "c_api/export.h"
#include "c_api/import.h"

using namespace recoverssm;
using namespace recoverssm::c_api;

static_assert(std::is_same_v<recoverssm_parallel_for, decltype(ParallelFor::run)>);

namespace {

constexpr int32_t kMostThreads = 1024;

// The threads did not come along into a forked child.
void run_tasks(void* self, int64_t tasks, recoverssm_task task, void* task_context) {
  const auto& context = *static_cast<const recoverssm_context*>(self);
  if (context.here()) return context.threads.run(context.threads.self, tasks, task, task_context);
  for (int64_t i = 0; i < tasks; ++i) task(task_context, i, 0);
}

}  // namespace

int recoverssm_context_create(int32_t threads, recoverssm_context** context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return invalid("context_create", "context", "null", "where to write the context");
    *context = nullptr;
    if (threads < 0 || threads > kMostThreads) {
      return invalid("context_create", "threads", std::to_string(threads), "0 (one a core) to " + std::to_string(kMostThreads));
    }
    *context = std::make_unique<recoverssm_context>(threads).release();
    return {};
  });
}

int recoverssm_context_create_cuda(void* stream, recoverssm_context** context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return invalid("context_create_cuda", "context", "null", "where to write the context");
    *context = nullptr;
    *context = std::make_unique<recoverssm_context>(Context::cuda(stream)).release();
    return {};
  });
}

int recoverssm_context_create_sycl(void* queue, recoverssm_context** context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return invalid("context_create_sycl", "context", "null", "where to write the context");
    *context = nullptr;
    *context = std::make_unique<recoverssm_context>(Context::sycl(queue)).release();
    return {};
  });
}

int recoverssm_context_launch(recoverssm_context* context, size_t workspace_bytes, recoverssm_launch* launch) {
  return guarded([&]() -> Status {
    const char* const op = "context_launch";
    if (Status status = check_context(op, context); !status.ok()) return status;
    ListMemory memory;
    Import import(op, memory);
    LaunchParts parts;
    import.read("launch", launch, parts);
    if (!import.ok()) return import.take();
    const Launch made = context->context.launch(workspace_bytes);
    parts.launch.workspace = made.workspace;
    parts.launch.backend = made.backend;
    parts.launch.stream = made.stream;
    parts.launch.parallel = {};
    if (context->threads.run != nullptr) parts.launch.parallel = {run_tasks, context, context->threads.workers};
    write(launch, launch->struct_size, parts);
    return {};
  });
}

void recoverssm_context_destroy(recoverssm_context* context) {
  // Without its threads a copy in a forked child cannot be taken down; what it holds stays the child's until that ends.
  if (context != nullptr && context->here()) delete context;
}
