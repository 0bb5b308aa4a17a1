#include "harpe/base/result.h"

#include <cstdio>
#include <cstdlib>

namespace harpe {

void end_without_value(const Error& error) {
  std::fputs(("harpe: the value of a failure was asked for: " + error.text() + "\n").c_str(),
             stderr);
  std::abort();
}

void end_without_error() {
  std::fputs("harpe: the error of a success was asked for\n", stderr);
  std::abort();
}

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kInfeasible:
    case ErrorCode::kIo:
    case ErrorCode::kNotFound:
      return 2;
    case ErrorCode::kRefused:
      return 1;
    case ErrorCode::kNotSupported:
    case ErrorCode::kUnavailable:
      return 69;
    case ErrorCode::kConflict:
      return 75;
    case ErrorCode::kNoPermission:
      return 77;
    case ErrorCode::kInternal:
      break;
  }
  return 70;
}

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid_input";
    case ErrorCode::kInfeasible:
      return "infeasible";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kRefused:
      return "refused";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kNoPermission:
      return "no_permission";
    case ErrorCode::kNotSupported:
      return "not_supported";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kInternal:
      break;
  }
  return "internal";
}

std::string Diagnostic::text() const {
  std::string place = file;
  for (const int number : {line, column}) {
    if (number == 0) break;  // a column says nothing without its line
    if (!place.empty()) place += ':';
    place += std::to_string(number);
  }
  return place.empty() ? message : place + ": " + message;
}

void Diagnostics::add(int line, int column, std::string message) {
  if (count_++ < kLimit) kept_.push_back({file_, line, column, std::move(message)});
}

std::vector<Diagnostic> Diagnostics::take() {
  if (count_ > kLimit) {
    const std::size_t left_out = count_ - kLimit;
    kept_.push_back({file_, 0, 0,
                     "and " + std::to_string(left_out) +
                         (left_out == 1 ? " more diagnostic" : " more errors")});
  }
  count_ = 0;
  return std::exchange(kept_, {});
}

std::string Error::text() const {
  std::string all;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!all.empty()) all += '\n';
    all += diagnostic.text();
  }
  return all;
}

}  // namespace harpe
