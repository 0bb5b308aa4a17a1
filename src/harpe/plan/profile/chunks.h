#pragma once
/// \file
/// Conversion of profiles to another number of chunks per stage: a stage does the same work,
/// however many chunks it is divided into.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// Returns the points of several instructions that run in a row with one setting: sums of seconds
/// and joules, at the settings that all these instructions have.
/// \param rows  points of each instruction; at least one instruction
std::vector<OperatingPoint> points_in_a_row(
    const std::vector<std::span<const OperatingPoint>>& rows);

/// Returns the profile with a row for each chunk of a stage.
///
/// Rows without a chunk hold for a whole stage: each chunk gets an equal share of their seconds and
/// joules. For a profile with another number of chunks, the sum of its chunks is divided, at the
/// settings that all chunks of a stage have. A profile with the right number of chunks is returned
/// unchanged. Rows of fixed-time instructions hold for each chunk.
/// \param chunks  model parts on each stage, in all copies together
/// \param copies  independent models in the pipeline, see `Schedule::copies`
Profile with_chunks(const Profile& profile, int chunks, int copies = 1);

/// Returns a sentence about the changes that `with_chunks` makes; nullopt if it makes none.
std::optional<std::string> note_on_chunks(const Profile& profile, int chunks, int copies = 1);

}  // namespace harpe::plan
