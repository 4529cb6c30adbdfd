// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every call of Octet reports success or failure. No exceptions.
//
// `why` names what was wrong, the value found and the value wanted: "hidden 4128 is not a multiple of 128".
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace octet {

// The numbers are those of octet_status in octet.h.
enum class Code {
  kOk = 0,
  kInvalidArgument = 1,  // an argument, a tensor or a file has a wrong value
  kUnsupported = 2,  // right, but no kernel or reader here takes it; `why` says which and what for
  kMisuse = 3,       // a name that does not exist: operation, setting, preset
  kIo = 4,           // the operating system refused: `why` has its message
  kDeviceError = 5,  // a device reported an error
  kInternal = 6,     // a broken invariant: a bug of ours
  kOutOfMemory = 7,
};

struct [[nodiscard]] Status {
  Code code = Code::kOk;
  std::string why;

  bool ok() const { return code == Code::kOk; }
};

inline Status invalid_argument(std::string why) { return {Code::kInvalidArgument, std::move(why)}; }
inline Status unsupported(std::string why) { return {Code::kUnsupported, std::move(why)}; }
inline Status misuse(std::string why) { return {Code::kMisuse, std::move(why)}; }
inline Status io_error(std::string why) { return {Code::kIo, std::move(why)}; }
inline Status internal_error(std::string why) { return {Code::kInternal, std::move(why)}; }

// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

// Hands a failure to the caller.
#define OCTET_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                     \
    if (::octet::Status octet_status_ = (expr); !octet_status_.ok()) return octet_status_; \
  } while (false)

#define OCTET_CONCAT_INNER(a, b) a##b
#define OCTET_CONCAT(a, b) OCTET_CONCAT_INNER(a, b)
// OCTET_ASSIGN_OR_RETURN(auto x, f()): x is f()'s value, or its failure goes to the caller.
// NOLINTBEGIN(bugprone-macro-parentheses): lhs may declare a variable
#define OCTET_ASSIGN_OR_RETURN(lhs, expr) \
  OCTET_ASSIGN_OR_RETURN_INNER(OCTET_CONCAT(octet_result_, __LINE__), lhs, expr)
#define OCTET_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return tmp.status();                \
  lhs = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace octet
