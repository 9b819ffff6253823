// From a Status or an exception to what a C caller sees: an int, and a text per thread.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "recoverssm/recoverssm.h"
#include "recoverssm/types.hpp"

namespace recoverssm::c_api {

// Keeps the text of a failure for recoverssm_last_error; neither throws nor allocates.
int finish(int status, const char* text) noexcept;

// The statuses of the C ABI are the kinds of the C++ API and one more.
constexpr int status_of(ErrorKind kind) { return static_cast<int>(kind); }
static_assert(status_of(ErrorKind::ok) == RECOVERSSM_OK && status_of(ErrorKind::invalid_argument) == RECOVERSSM_INVALID_ARGUMENT);
static_assert(status_of(ErrorKind::out_of_range) == RECOVERSSM_OUT_OF_RANGE);
static_assert(status_of(ErrorKind::unsupported) == RECOVERSSM_UNSUPPORTED);
static_assert(status_of(ErrorKind::bad_state) == RECOVERSSM_BAD_STATE);
static_assert(status_of(ErrorKind::device_error) == RECOVERSSM_DEVICE_ERROR);

// Calls body, which returns a Status and may throw.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? RECOVERSSM_OK : finish(status_of(status.kind), status.message.c_str());
  } catch (const Error& error) {
    return finish(status_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return finish(RECOVERSSM_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return finish(RECOVERSSM_DEVICE_ERROR, error.what());
  } catch (...) {
    return finish(RECOVERSSM_DEVICE_ERROR, "an exception of unknown type");
  }
}

inline Status invalid(const std::string& op, const std::string& argument, const std::string& got, const std::string& expected) {
  return {ErrorKind::invalid_argument, op + ": " + argument + ": " + got + ", expected " + expected};
}

}  // namespace recoverssm::c_api
