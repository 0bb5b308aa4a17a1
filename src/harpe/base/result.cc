#include "harpe/base/result.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace harpe {

void end_without_value(const Error& error) {
  std::fputs(("harpe: the value of a failed result was requested: " + error.text() + "\n").c_str(),
             stderr);
  std::abort();
}

void end_without_error() {
  std::fputs("harpe: the error of a successful result was requested\n", stderr);
  std::abort();
}

namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_status;
};
constexpr std::array<CodeRow, 10> kCodes{{{ErrorCode::kInvalidInput, "invalid_input", 2},
                                          {ErrorCode::kInfeasible, "infeasible", 2},
                                          {ErrorCode::kIo, "io", 2},
                                          {ErrorCode::kRefused, "refused", 1},
                                          {ErrorCode::kNotFound, "not_found", 2},
                                          {ErrorCode::kNoPermission, "no_permission", 77},
                                          {ErrorCode::kNotSupported, "not_supported", 69},
                                          {ErrorCode::kUnavailable, "unavailable", 69},
                                          {ErrorCode::kConflict, "conflict", 75},
                                          {ErrorCode::kInternal, "internal", 70}}};

const CodeRow& row_of(ErrorCode code) {
  const auto* const row = std::ranges::find(kCodes, code, &CodeRow::code);
  return row != kCodes.end() ? *row : kCodes.back();
}

}  // namespace

int exit_status(ErrorCode code) {
  return row_of(code).exit_status;
}

std::string_view name_of(ErrorCode code) {
  return row_of(code).name;
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
