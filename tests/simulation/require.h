#pragma once
/// \file
/// Checks of requirements.

#include <functional>
#include <string>

namespace harpe::simulation {

/// Prints the broken requirement and ends the process: its threads are in the middle of work.
[[noreturn]] void broken(const std::string& what);
/// Sets a function that prints more, such as the seed and the time, before the end; may be empty.
void on_broken(std::function<void(const std::string& what)> tell);

inline void require(bool holds, const char* what) {
  if (!holds) broken(what);
}

inline constexpr int kBrokenStatus = 3;

}  // namespace harpe::simulation
