#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/command/command/kept_result.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/command/replay_cli/replay_cli.h"
#include "harpe/command/replay_cli/replay_groups.h"
#include "harpe/command/replay_cli/trace_files.h"
#include "harpe/command/replay_cli/zeus_report.h"
#include "harpe/command/replay_cli/zeus_runs.h"
#include "harpe/zeus/batch_size/pay_back.h"

namespace harpe {
namespace {

constexpr int kMostSeeds = 10'000;
constexpr int kMostRecurrences = 1'000'000;
constexpr double kMostOfConstant = 10;

Result<Outcome> run_groups(const ZeusArguments& arguments, Console& console) {
  if (!arguments.from.empty() || !arguments.out.empty() || arguments.targets) {
    return Error::invalid("--groups goes with neither --from, nor --out, nor --targets");
  }
  if (arguments.gpus.size() > 1 || arguments.etas.size() > 1) {
    return Error::invalid("--groups goes with one GPU and one eta");
  }
  return replay_groups({.groups = arguments.groups,
                        .directory = arguments.directory,
                        .gpu = arguments.gpus[0],
                        .csv = arguments.csv,
                        .seeds = arguments.seeds,
                        .eta = arguments.etas[0],
                        .prior = arguments.prior,
                        .horizon = arguments.horizon},
                       console);
}

/// What the page says it was made of: the traces, with their digests.
PageSource page_source(const Commands& commands, const ZeusArguments& arguments) {
  constexpr std::array<std::string_view, 2> kOutputs = {"--csv", "--out"};
  PageSource source{.program = program_version(commands),
                    .command = commands.command_line(kOutputs),
                    .documentation = "man harpe-replay-zeus, or harpe replay zeus --help."};
  const auto add = [&](const std::filesystem::path& file) {
    source.inputs.emplace_back(file.filename().string(), file_digest(file));
  };
  add(train_file(arguments.directory));
  for (const std::string& gpu : arguments.gpus) add(power_file(arguments.directory, gpu));
  return source;
}

Result<Outcome> run_zeus(const ZeusArguments& arguments, const Commands& commands,
                         Console& console) {
  for (const std::string& file : {arguments.csv, arguments.out}) {
    if (!file.empty()) HARPE_TRY(check_writable(file));
  }
  if (!arguments.groups.empty()) return run_groups(arguments, console);
  const std::vector<ZeusRun> runs = HARPE_TRY(replay_zeus_jobs(arguments, console));
  Outcome outcome{.text = zeus_table(runs), .json = zeus_json(runs)};
  if (!arguments.csv.empty()) {
    keep_result(arguments.csv, zeus_csv(runs), console, outcome);
  }
  if (!arguments.out.empty()) {
    keep_result(arguments.out, zeus_page(runs, arguments, page_source(commands, arguments)),
                console, outcome);
  }
  return outcome;
}

Result<std::string> parse_gpu(std::string_view text) {
  for (const char* gpu : traced_gpus()) {
    if (text == gpu) return std::string(text);
  }
  return Error::invalid("expected v100, a40, p100 or rtx6000");
}

Result<Horizon> parse_horizon(std::string_view text) {
  if (text == "unknown") return Horizon{};
  if (text == "known") return Horizon{.is_known = true};
  const Result<int> count = parse_count(text, 1, kMostRecurrences);
  if (!count.ok()) return Error::invalid("expected unknown, known or a number of recurrences");
  return Horizon{.recurrences = *count};
}

/// The constants that may be judged, by the names of their members.
constexpr std::array kPriorConstants = {
    std::pair{"epochs_slope", &PayBackPrior::epochs_slope},
    std::pair{"epochs_slope_deviation", &PayBackPrior::epochs_slope_deviation},
    std::pair{"epochs_bend", &PayBackPrior::epochs_bend},
    std::pair{"epochs_bend_deviation", &PayBackPrior::epochs_bend_deviation},
    std::pair{"epochs_waviness", &PayBackPrior::epochs_waviness},
    std::pair{"epochs_scatter", &PayBackPrior::epochs_scatter},
    std::pair{"run_deviation", &PayBackPrior::run_deviation},
    std::pair{"doubt", &PayBackPrior::doubt},
    std::pair{"cost_slope_deviation", &PayBackPrior::cost_slope_deviation},
    std::pair{"cost_bend", &PayBackPrior::cost_bend},
    std::pair{"cost_bend_deviation", &PayBackPrior::cost_bend_deviation},
    std::pair{"cost_waviness", &PayBackPrior::cost_waviness},
    std::pair{"cost_scatter", &PayBackPrior::cost_scatter},
    std::pair{"failure", &PayBackPrior::failure},
    std::pair{"knowledge", &PayBackPrior::knowledge},
};

Result<PayBackPrior> parse_prior(std::string_view text) {
  const auto name_of = [](const auto& constant) { return std::string_view(constant.first); };
  PayBackPrior prior;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const std::size_t equals = std::min(one.find('='), one.size());
    const auto found = std::ranges::find(kPriorConstants, one.substr(0, equals), name_of);
    const auto value = parse_number(one.substr(std::min(equals + 1, one.size())));
    if (found == kPriorConstants.end() || !value || !(*value > 0 && *value <= kMostOfConstant)) {
      return Error::invalid(in_quotes(one) +
                            " is not a constant of PayBackPrior, =, and a number above 0 up to 10");
    }
    prior.*found->second = *value;
    if (comma == std::string_view::npos) return prior;
    text.remove_prefix(comma + 1);
  }
}

/// Values between commas, each once.
template <class Parse>
auto parse_each(std::string_view text, Parse parse)
    -> Result<std::vector<std::decay_t<decltype(*parse(text))>>> {
  std::vector<std::decay_t<decltype(*parse(text))>> values;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    values.push_back(HARPE_TRY(parse(one)));
    if (std::ranges::count(values, values.back()) > 1) {
      return Error::invalid(in_quotes(one) + " is there twice");
    }
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<std::string>> parse_gpus(std::string_view text) {
  if (text == "all") return std::vector<std::string>(traced_gpus().begin(), traced_gpus().end());
  return parse_each(text, parse_gpu);
}

}  // namespace

void add_replay_zeus_command(Commands& commands, CLI::App& replay) {
  const auto arguments = std::make_shared<ZeusArguments>();
  CLI::App& app = commands.add(
      replay, "zeus",
      "choose batch sizes of recurring jobs, over Zeus's traces\n"
      "Runs the six jobs of Zeus's evaluation again and again, with the default, a grid, Zeus's "
      "choice and Harpe's, and says what each costs over an oracle that knows the best batch size "
      "and limit. Harpe believes beforehand what a server believes, which was chosen on these "
      "jobs. "
      "With several GPUs or weights, --json has a list \"runs\", each as with one of them.",
      "harpe replay zeus traces --gpu v100 --seeds 20\n"
      "harpe replay zeus traces --gpu all --eta 0,0.5,1 --csv seeds.csv\n"
      "harpe replay zeus traces --gpu all --targets --seeds 100\n"
      "harpe replay zeus traces --gpu a40 --from v100 --out regret.html",
      [arguments, &commands](Console& console) { return run_zeus(*arguments, commands, console); });
  app.add_option("DIR", arguments->directory,
                 "Where summary_train.csv and summary_power_<gpu>.csv are")
      ->type_name("DIR")
      ->required()
      ->group("Arguments");
  add_parsed(app, "--gpu", "GPU,...",
             "Of v100 (default), a40, p100 and rtx6000; or all, which is these four",
             arguments->gpus, parse_gpus);
  add_parsed(app, "--from", "GPU",
             "GPU on which the same jobs have recurred before: Harpe knows their epochs to target",
             arguments->from, parse_gpu);
  add_text(app, "--groups", "FILE",
           "Jobs that overlap, in place of one after the other: a table with the columns group, "
           "start_time, end_time, dataset and runtime_ratio; of one GPU and eta",
           arguments->groups);
  add_parsed(app, "--seeds", "COUNT", "Seeds 1 to COUNT (default 20)", arguments->seeds,
             [](std::string_view text) { return parse_count(text, 1, kMostSeeds); });
  add_parsed(app, "--eta", "SHARE,...", "Weights of energy, 0 to 1 (default 0.5)", arguments->etas,
             [](std::string_view text) { return parse_each(text, parse_share); });
  app.add_flag("--targets", arguments->targets,
               "Every target that summary_train.csv has of a job and that its default batch size "
               "always reaches, not only that of Zeus's evaluation");
  add_parsed(app, "--horizon", "unknown|known|COUNT",
             "Recurrences that Harpe is told beforehand: none (default), each job's own number, or "
             "COUNT for all",
             arguments->horizon, parse_horizon);
  add_parsed(app, "--prior", "NAME=VALUE,...",
             "Other constants of what Harpe believes beforehand than a server has (members of "
             "PayBackPrior in pay_back.h), to judge them",
             arguments->prior, parse_prior);
  add_text(app, "--csv", "FILE", "Every seed of every job, as a table", arguments->csv);
  add_text(app, "--out", "FILE", "The regret of each way, as a page with a picture for each job",
           arguments->out);
}

}  // namespace harpe
