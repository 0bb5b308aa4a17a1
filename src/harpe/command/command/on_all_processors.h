#pragma once
/// \file
/// Parallel work on all processors of the machine, with progress.

#include <cstddef>
#include <functional>

namespace harpe::command {

/// Calls `work(i)` once for each i below `count`, from as many threads as there are processors, and
/// returns when all calls have returned. `work` must not throw.
/// \param progress  called by the caller's thread about every 20 ms with the completed share (0 to
///                  1); may be empty
void on_all_processors(std::size_t count, const std::function<void(std::size_t)>& work,
                       const std::function<void(double)>& progress);

}  // namespace harpe::command
