#pragma once
/// \file
/// Errors as values. No exception leaves a room; a function that can fail returns `Result<T>`.
///
///   const harpe::Result<harpe::Profile> profile = harpe::read_profile("profile.csv");
///   if (!profile.ok()) return fail(profile.error().text());  // a line for each error
///   use(*profile);

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace harpe {

/// The kind of a failure. Tables map each kind to exit status, HTTP status and Python exception.
enum class ErrorCode {
  kInvalidInput,  ///< the caller's input is wrong; the diagnostics have the positions
  kInfeasible,    ///< well-formed, but no solution exists (a deadline below the fastest plan)
  kIo,            ///< a file or directory could not be read or written
  kRefused,       ///< a check rejected its input (`harpe verify`)
  kNotFound,      ///< no such device, lease or job
  kNoPermission,  ///< the caller or this process lacks a permission; the error names the remedy
  kNotSupported,  ///< this device or driver lacks the function
  kUnavailable,   ///< temporary: device lost, driver or agent not running, no response in time
  kConflict,      ///< another client or process holds the resource
  kInternal,      ///< a broken invariant: a defect of Harpe
};

/// Returns the exit status of the command line for a failure: 2 for input, infeasible, not found
/// and I/O; 1 for refusal; 69 for not supported and unavailable; 75 for a conflict; 77 for no
/// permission; 70 for a defect (sysexits.h).
int exit_status(ErrorCode code);

/// Returns the name used in JSON responses, on the command line and over HTTP: "invalid_input".
std::string_view name_of(ErrorCode code);

/// One error in an input, with its position. `line` and `column` count from 1; 0 if not known.
struct Diagnostic {
  std::string file = {};
  int line = 0;
  int column = 0;
  std::string message = {};

  /// Returns "file:line:column: message" without the parts that are not known.
  std::string text() const;
};

/// The diagnostics of one reader, collected up to a limit, so that a user sees all of them at once.
class Diagnostics {
 public:
  static constexpr std::size_t kLimit = 20;

  explicit Diagnostics(std::string file = {}) : file_(std::move(file)) {}

  void add(int line, int column, std::string message);
  void add(std::string message) { add(0, 0, std::move(message)); }
  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }

  /// Returns the diagnostics; if some exceed the limit, the last one counts them.
  std::vector<Diagnostic> take();

 private:
  std::string file_;
  std::vector<Diagnostic> kept_;
  std::size_t count_ = 0;
};

/// A failure, with the information a user needs to fix it.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::vector<Diagnostic> diagnostics;

  static Error invalid(std::string message) {
    return {ErrorCode::kInvalidInput, {{.message = std::move(message)}}};
  }
  static Error invalid(Diagnostics diagnostics) {
    return {ErrorCode::kInvalidInput, diagnostics.take()};
  }
  static Error infeasible(std::string message) {
    return {ErrorCode::kInfeasible, {{.message = std::move(message)}}};
  }
  static Error io(std::string file, std::string message) {
    return {ErrorCode::kIo, {{.file = std::move(file), .message = std::move(message)}}};
  }
  /// Returns an error of any code with one message.
  static Error of(ErrorCode code, std::string message) {
    return {code, {{.message = std::move(message)}}};
  }
  static Error internal(std::string message) {
    return {ErrorCode::kInternal, {{.message = std::move(message)}}};
  }

  /// Returns all diagnostics, one per line.
  std::string text() const;
};

/// Prints that a result lacks the value (or the error) that was read from it, and ends the program,
/// in every build: running on without the value would do more harm.
[[noreturn]] void end_without_value(const Error& error);
[[noreturn]] void end_without_error();

/// A value or an `Error`. Call `ok()` before reading either; reading the absent one ends the
/// program. A result does not convert to bool: for a `Result<bool>`, `if (found)` could mean
/// success or the value.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(*-explicit-*)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(*-explicit-*)

  bool ok() const { return state_.index() == 0; }

  T& value() & { return expect_value(), *std::get_if<0>(&state_); }
  const T& value() const& { return expect_value(), *std::get_if<0>(&state_); }
  T&& value() && { return expect_value(), std::move(*std::get_if<0>(&state_)); }
  /// Returns the value, moved out.
  T take() && { return std::move(*this).value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return expect_error(), *std::get_if<1>(&state_); }
  Error&& error() && { return expect_error(), std::move(*std::get_if<1>(&state_)); }

 private:
  void expect_value() const {
    if (!ok()) [[unlikely]]
      end_without_value(*std::get_if<1>(&state_));
  }
  void expect_error() const {
    if (ok()) [[unlikely]]
      end_without_error();
  }

  std::variant<T, Error> state_;
};

/// Success without a value, or an `Error`.
using Status = Result<std::monostate>;
inline Status ok_status() {
  return std::monostate{};
}

/// Evaluates to the value of a result. If the result is an error, returns the error from the
/// enclosing function.
///
///     const Profile profile = HARPE_TRY(read_profile(path));
///     HARPE_TRY(check(profile));
#define HARPE_TRY(...)                 \
  __extension__({                      \
    auto tried = (__VA_ARGS__);        \
    if (!tried.ok()) [[unlikely]]      \
      return std::move(tried).error(); \
    std::move(tried).take();           \
  })

}  // namespace harpe
