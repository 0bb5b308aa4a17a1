#include "harpe/plan/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/options.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/command/plan_cli/plan_cli.h"
#include "harpe/plan/schedule/pipeline.h"

namespace harpe::command {
namespace {

/// Starts and durations if a forward, a recompute, a weight gradient and an input gradient take 1,
/// a full backward 2, fused instructions the sum of their halves, and fixed-time instructions 0.
struct UnitTimeline {
  std::vector<double> start, duration;  ///< one entry per node of the pipeline
  std::vector<double> busy;             ///< one entry per stage
  double makespan = 0;
};

using PartAndMicroBatch = std::pair<int, int>;

/// Returns the backwards whose weight gradient is split off: they compute the input gradient alone.
std::set<PartAndMicroBatch> split_backwards(const Schedule& schedule) {
  std::set<PartAndMicroBatch> split;
  for (const auto& list : schedule.lists) {
    for (const Instruction& instruction : list) {
      if (instruction.kind == InstructionKind::kWeight) {
        split.emplace(instruction.part, instruction.micro_batch);
      }
    }
  }
  return split;
}

double unit_duration(const Instruction& i, const std::set<PartAndMicroBatch>& split) {
  const auto backward = [&](int part, int micro_batch) {
    return split.contains({part, micro_batch}) ? 1.0 : 2.0;
  };
  switch (i.kind) {
    case InstructionKind::kForward:
    case InstructionKind::kWeight:
    case InstructionKind::kRecompute:
      return 1;
    case InstructionKind::kBackward:
      return backward(i.part, i.micro_batch);
    case InstructionKind::kRecomputeBackward:
      return 1 + backward(i.part, i.micro_batch);
    case InstructionKind::kForwardBackward:
      return 1 + backward(i.backward_part, i.backward_micro_batch);
    default:
      return 0;
  }
}

std::string label(const Instruction& i, bool with_part) {
  const auto half = [&](char letter, int part, int micro_batch) {
    return (with_part ? std::to_string(part) : "") + letter + std::to_string(micro_batch);
  };
  using Letter = std::pair<InstructionKind, char>;
  constexpr std::array kLetters{Letter{InstructionKind::kForward, 'F'},
                                Letter{InstructionKind::kBackward, 'B'},
                                Letter{InstructionKind::kWeight, 'W'},
                                Letter{InstructionKind::kRecompute, 'R'},
                                Letter{InstructionKind::kRecomputeBackward, 'C'},
                                Letter{InstructionKind::kForwardBackward, 'F'}};
  const auto letter = std::ranges::find(kLetters, i.kind, &Letter::first);
  if (letter == kLetters.end()) return "";
  std::string text = half(letter->second, i.part, i.micro_batch);
  if (i.kind != InstructionKind::kForwardBackward) return text;
  return text + '/' + half('B', i.backward_part, i.backward_micro_batch);
}

UnitTimeline unit_timeline(const Pipeline& pipeline) {
  const std::set<PartAndMicroBatch> split = split_backwards(pipeline.schedule());
  UnitTimeline timeline;
  timeline.busy.resize(pipeline.schedule().stages);
  std::vector<Seconds> durations;
  for (const PipelineNode& node : pipeline.nodes()) {
    const double duration = node.stage < 0 ? 0 : unit_duration(node.instruction, split);
    durations.push_back({duration});
    timeline.duration.push_back(duration);
    if (node.stage >= 0) timeline.busy[node.stage] += duration;
  }
  const Timeline earliest = pipeline.earliest(durations);
  for (const Seconds start : earliest.start) timeline.start.push_back(start.value);
  timeline.makespan = earliest.makespan.value;
  return timeline;
}

/// Returns one line per stage, at most `width` columns (0: no limit); "..." marks a cut line.
std::string draw_schedule(const Pipeline& pipeline, const UnitTimeline& timeline, int width) {
  const Schedule& schedule = pipeline.schedule();
  const bool with_part = schedule.chunks() > 1;
  std::size_t cell = 2;
  for (int n = 0; n < pipeline.instructions(); ++n) {
    // A label wider than its share of columns widens all columns.
    const double duration = timeline.duration[n];
    if (duration == 0) continue;
    const std::size_t length = label(pipeline.nodes()[n].instruction, with_part).size() + 1;
    cell =
        std::max(cell, static_cast<std::size_t>(std::ceil(static_cast<double>(length) / duration)));
  }
  const std::size_t label_width = 8 + std::to_string(schedule.stages - 1).size();
  const std::size_t limit = width == 0 ? std::string::npos : static_cast<std::size_t>(width);
  std::vector<std::string> lines(schedule.stages);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    lines[stage] = "stage " + std::to_string(stage);
    lines[stage].resize(label_width, ' ');
  }
  for (int n = 0; n < pipeline.instructions(); ++n) {
    const PipelineNode& node = pipeline.nodes()[n];
    std::string& line = lines[node.stage];
    const std::size_t from = label_width + static_cast<std::size_t>(timeline.start[n]) * cell;
    const auto columns = static_cast<std::size_t>(timeline.duration[n]) * cell;
    if (columns == 0 || line.size() > limit) continue;
    line.resize(std::max(line.size(), from), ' ');
    std::string block = label(node.instruction, with_part);
    block.resize(std::max(block.size(), columns - 1), '-');
    line += block;
  }
  std::string text;
  for (std::string& line : lines) {
    if (line.size() > limit) {
      line.resize(limit - 4);
      line += " ...";
    }
    text += line + '\n';
  }
  return text;
}

struct ScheduleArguments {
  std::string source;  ///< name of a generator, or a file
  std::optional<int> stages, micro_batches, chunks;
  TorchDialect dialect = TorchDialect::kDetect;
  int copies = 1;
  std::optional<int> width;
  bool list = false;
  std::string to;
  std::string out;
};

/// Returns the schedule of the named generator, or of the file. Sizes are for generators only.
Result<Schedule> load(const ScheduleArguments& arguments, Console& console) {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    if (lower(arguments.source) != generator.name) continue;
    ScheduleOptions options{.stages = arguments.stages.value_or(4),
                            .micro_batches = arguments.micro_batches.value_or(8)};
    if (arguments.chunks) options.chunks = *arguments.chunks;
    Schedule schedule = HARPE_TRY(generator.make(options));
    warn_of_chunks(arguments.chunks, schedule, console);
    return schedule;
  }
  std::error_code no_file;
  const bool is_file = arguments.source == "-" ||
                       arguments.source.find_first_of("./") != std::string::npos ||
                       std::filesystem::exists(arguments.source, no_file);
  if (!is_file)
    return make_schedule(arguments.source, {});  // its error suggests the nearest generator
  if (arguments.stages || arguments.micro_batches || arguments.chunks) {
    return Error::invalid("--stages, --micro-batches and --chunks are for named schedules; " +
                          in_quotes(arguments.source) + " is a file");
  }
  return given_schedule(arguments.source, arguments.dialect, arguments.copies);
}

Outcome list_schedules(Console& console) {
  Table table = Table::of({"name", "description"}, 2);
  Json list = Json::array();
  for (const ScheduleGenerator& generator : schedule_generators()) {
    table.add({std::string(generator.name), std::string(generator.description)});
    list.push_back({{"name", generator.name},
                    {"description", generator.description},
                    {"uses_chunks", generator.uses_chunks}});
  }
  return {.text = table.text(console.colour_out),
          .json = json_text({{"schedules", std::move(list)}})};
}

Result<Outcome> run_show(const ScheduleArguments& arguments, Console& console) {
  if (arguments.list) return list_schedules(console);
  if (arguments.source.empty()) return Error::invalid("SCHEDULE is missing");
  Schedule schedule = HARPE_TRY(load(arguments, console));
  const Pipeline pipeline = HARPE_TRY(Pipeline::build(std::move(schedule)));

  const Schedule& shown = pipeline.schedule();
  const UnitTimeline timeline = unit_timeline(pipeline);
  const int width = arguments.width.value_or(console.width);
  std::string text = shown.name + ": " + std::to_string(shown.stages) + " stages, " +
                     std::to_string(shown.micro_batches) + " micro-batches, " +
                     std::to_string(shown.parts()) + " model parts, " +
                     std::to_string(pipeline.instructions()) + " instructions\n\n";
  text += draw_schedule(pipeline, timeline, width) + '\n';
  Table table = Table::of({"stage", "instructions", "busy", "idle", "activations at once"});
  Json stages = Json::array();
  const std::vector<int> peaks = pipeline.peak_activations();
  for (int stage = 0; stage < shown.stages; ++stage) {
    const double busy = timeline.busy[stage];
    const double idle = timeline.makespan - busy;
    table.add({std::to_string(stage), std::to_string(shown.lists[stage].size()), shortest(busy),
               shortest(idle), std::to_string(peaks[stage])});
    stages.push_back({{"stage", stage},
                      {"instructions", shown.lists[stage].size()},
                      {"busy", busy},
                      {"idle", idle},
                      {"peak_activations", peaks[stage]}});
  }
  text += table.text(console.colour_out);
  text +=
      "\nTimes in units of a forward; a backward takes 2, or 1 where its weight gradient (W) is "
      "split off; makespan " +
      shortest(timeline.makespan) + ".\n";
  const Json document = {{"name", shown.name},
                         {"stages", shown.stages},
                         {"microbatches", shown.micro_batches},
                         {"chunks", shown.chunks()},
                         {"instructions", pipeline.instructions()},
                         {"placement", shown.placement},
                         {"unit_makespan", timeline.makespan},
                         {"per_stage", std::move(stages)}};
  return Outcome{.text = text, .json = json_text(document)};
}

Result<Outcome> run_convert(const ScheduleArguments& arguments, Console& console) {
  const Schedule schedule = HARPE_TRY(load(arguments, console));
  const std::string content =
      arguments.to == "torch" ? torch_csv(schedule) : schedule_json(schedule);
  if (arguments.out.empty()) {
    return Outcome{.text = content, .json = json_text({{"schedule", content}})};
  }
  HARPE_TRY(write_file(arguments.out, content));
  return Outcome{.text = "written: " + arguments.out + "\n",
                 .json = json_text({{"files", {arguments.out}}})};
}

Result<TorchDialect> parse_dialect(std::string_view text) {
  const std::string word = lower(trim(text));
  if (word == "detect") return TorchDialect::kDetect;
  if (word == "new") return TorchDialect::kNew;
  if (word == "old") return TorchDialect::kOld;
  return Error::invalid("expected detect, new or old, found " + in_quotes(text));
}

Result<std::string> parse_form(std::string_view text) {
  const std::string word = lower(trim(text));
  if (word == "torch" || word == "json") return word;
  return Error::invalid("expected torch or json, found " + in_quotes(text));
}

void add_source_options(CLI::App& app, ScheduleArguments& arguments, bool required) {
  CLI::Option* source =
      app.add_option("SCHEDULE", arguments.source,
                     "Name of a schedule (see harpe schedule show --list), or a file: PyTorch "
                     "CSV, lists as Python prints them, or JSON");
  source->type_name("SCHEDULE|FILE")->group("Arguments");
  if (required) source->required();
  const auto count = count_within(1, kMaxInstructions);
  add_parsed(app, "--stages", "N", "Pipeline stages of a named schedule (default 4)",
             arguments.stages, count);
  add_parsed(app, "--micro-batches,--microbatches", "M",
             "Micro-batches per iteration of a named schedule (default 8)", arguments.micro_batches,
             count);
  add_parsed(app, "--chunks", "V", "Model chunks per stage, for interleaved schedules (default 2)",
             arguments.chunks, count);
  add_parsed(app, "--dialect", "detect|new|old",
             "Meaning of B in PyTorch's notation. new (2025 and later): full backward; old: input "
             "gradient (default detect)",
             arguments.dialect, parse_dialect);
  add_parsed(app, "--copies", "N",
             "Independent models in a PyTorch file: 2 for DualPipe's two directions (default 1)",
             arguments.copies, count_within(1, 2));
}

}  // namespace

void add_schedule_command(Commands& commands) {
  CLI::App& schedule =
      commands.add(commands.root(), "schedule", "show and convert pipeline schedules",
                   "harpe schedule show zb-v --stages 4 --micro-batches 8\n"
                   "harpe schedule convert torch.csv --to json --out schedule.json");
  const auto shown = std::make_shared<ScheduleArguments>();
  CLI::App& show = commands.add(
      schedule, "show",
      "draw a schedule\n"
      "Draws the instructions of each stage over time, in units of a forward, and prints the idle "
      "time of each stage and the number of activations that it holds.",
      "harpe schedule show 1f1b --stages 4 --micro-batches 8\n"
      "harpe schedule show interleaved-1f1b --stages 4 --micro-batches 8\n"
      "harpe schedule show my_schedule.csv\n"
      "harpe schedule show --list",
      [shown](Console& console) { return run_show(*shown, console); });
  add_source_options(show, *shown, false);
  add_parsed(show, "--width", "COLUMNS",
             "Width of the drawing (default: width of the terminal; 0: no limit)", shown->width,
             count_within(0, 1'000'000));
  show.add_flag("--list", shown->list, "List all named schedules");

  const auto converted = std::make_shared<ScheduleArguments>();
  CLI::App& convert =
      commands.add(schedule, "convert",
                   "write a schedule in another format\n"
                   "Formats are PyTorch's pipeline schedule CSV (2025 and later) and JSON; see "
                   "docs/formats.md.",
                   "harpe schedule convert old.csv --dialect old --to torch --out new.csv\n"
                   "harpe schedule convert zb-h1 --stages 8 --micro-batches 32 --to json",
                   [converted](Console& console) { return run_convert(*converted, console); });
  add_source_options(convert, *converted, true);
  add_parsed(convert, "--to", "torch|json", "Format to write", converted->to, parse_form)
      ->required();
  add_text(convert, "--out", "FILE", "Output file (default: standard output)", converted->out);
}

}  // namespace harpe::command
