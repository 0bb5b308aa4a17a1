// Writes a plan with the proof of its quality to files, then reads both back and checks them with
// code that shares nothing with the planner. Prints the saving in grams, and writes a page that
// shows it.
//
//   certify PROFILE.csv DIRECTORY

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/carbon/carbon/intensity.h"
#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/frontier_json.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/frontier/verify.h"
#include "harpe/plan/instruction/per_stage.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/report/report.h"

namespace {

using harpe::operator""_W;
using std::filesystem::path;

constexpr double kIterations = 100'000;

std::string content(const path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

harpe::Status write(const path& profile, const path& directory) {
  const harpe::Profile costs = HARPE_TRY(harpe::read_profile(profile));
  const auto schedule = harpe::one_f_one_b({.stages = costs.stages(), .micro_batches = 8});
  // The GPUs of the last stage draw more power while they wait: one value per stage.
  std::vector<harpe::Watts> waiting = harpe::PerStage(83.64_W).each(costs.stages());
  waiting.back() = 90_W;
  const auto frontier =
      HARPE_TRY(harpe::characterize(schedule, costs, {.blocking_power = waiting}));
  const harpe::Plan plan = HARPE_TRY(frontier.plan(frontier.min_time() * 1.05));
  const auto certificate = HARPE_TRY(frontier.certificate(plan.iteration_time));
  std::ofstream(directory / "plan.json") << harpe::plan_json(plan);
  std::ofstream(directory / "certificate.json") << harpe::certificate_json(certificate);
  std::ofstream(directory / "frontier.json")
      << harpe::frontier_json(frontier, std::vector{HARPE_TRY(frontier.fastest_plan()), plan});

  const harpe::Plan all_max = frontier.all_max();
  std::ofstream(directory / "report.html") << harpe::report_html(
      {.title = "certify",
       .all_max = all_max,
       .points = {{plan.iteration_time, plan.iteration_energy, plan.lower_bound, plan}}});
  const auto grid = HARPE_TRY(harpe::parse_intensity("WORLD"));
  const harpe::Joules saved = kIterations * (all_max.iteration_energy - plan.iteration_energy);
  std::printf("%.0f g saved in %.0f iterations (%s)\n", harpe::emissions(saved, grid).value,
              kIterations, grid.source.c_str());
  return harpe::ok_status();
}

harpe::Status check(const path& profile, const path& directory) {
  const harpe::Profile costs = HARPE_TRY(harpe::read_profile(profile));
  const harpe::Plan plan = HARPE_TRY(harpe::read_plan(directory / "plan.json"));
  const path file = directory / "certificate.json";
  const auto certificate = HARPE_TRY(harpe::parse_certificate_json(content(file), file));
  const harpe::Verification found = harpe::verify_plan(plan, costs, &certificate);
  harpe::Diagnostics diagnostics;
  for (const std::string& error : found.diagnostics) diagnostics.add(error);
  if (!diagnostics.empty()) return harpe::Error{harpe::ErrorCode::kRefused, diagnostics.take()};
  std::printf("%.1f J; proven: no clocks need less than %.1f J\n", found.energy.value,
              found.proven_bound->value);
  return harpe::ok_status();
}

harpe::Status run(const path& profile, const path& directory) {
  HARPE_TRY(write(profile, directory));
  return check(profile, directory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: certify PROFILE.csv DIRECTORY\n");
    return 2;
  }
  const harpe::Status done = run(argv[1], argv[2]);
  if (done.ok()) return 0;
  std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return harpe::exit_status(done.error().code);
}
