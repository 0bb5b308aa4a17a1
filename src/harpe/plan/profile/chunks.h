#pragma once
/// \file
/// Profiles for pipelines with another number of chunks a stage: a stage does the same work,
/// however many chunks it is cut into.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns the points of several instructions that run in a row with one setting: sums of seconds
/// and joules, at the settings that all of them have.
/// \param rows  points of each instruction; at least one
std::vector<OperatingPoint> points_in_a_row(
    const std::vector<std::span<const OperatingPoint>>& rows);

/// Returns the profile with a row for each chunk of a stage.
///
/// Rows without a chunk are those of a whole stage: each chunk gets an equal share of their seconds
/// and joules. A profile of another number of chunks counts with the sum of its chunks, at the
/// settings that all chunks of a stage have. A profile that fits is returned as it is. Rows of
/// fixed-time instructions hold for each chunk.
/// \param chunks  parts of the model on each stage, of all copies together
/// \param copies  independent models in the pipeline, see `Schedule::copies`
Profile with_chunks(const Profile& profile, int chunks, int copies = 1);

/// Returns the sentence that says what `with_chunks` changes, or nullopt if it changes nothing.
std::optional<std::string> note_on_chunks(const Profile& profile, int chunks, int copies = 1);

}  // namespace harpe::plan
