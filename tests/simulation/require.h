#pragma once
/// \file
/// What has to hold.

#include <functional>
#include <string>

namespace harpe::simulation {

/// Tells what is broken and ends the process: its threads are in the middle of something.
[[noreturn]] void broken(const std::string& what);
/// Tells more, such as the seed and the time, before the end; empty: no more.
void on_broken(std::function<void(const std::string& what)> tell);

inline void require(bool holds, const char* what) {
  if (!holds) broken(what);
}

inline constexpr int kBrokenStatus = 3;

}  // namespace harpe::simulation
