#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "harpe/report/curve.h"
#include "harpe/report/drawing.h"
#include "harpe/report/markup.h"
#include "harpe/report/report.h"
#include "harpe/report/svg.h"

namespace harpe::report {
namespace {

constexpr double kTimelineWidth = 1200;
constexpr double kTimelineLeft = 72;
constexpr double kTimelineRight = 20;
constexpr double kTimelineTop = 64;  ///< of the first row, without a remark above it
constexpr double kRemark = 18;       ///< height of a remark
constexpr double kPlot = kTimelineWidth - kTimelineLeft - kTimelineRight;
constexpr double kBelow = 34;       ///< room for the time axis
constexpr double kCharacter = 6.2;  ///< width of a character in a block's label
/// If blocks are narrower than this on average, or more than this, columns of average power are
/// drawn instead.
constexpr double kNarrowest = 1.2;
constexpr std::size_t kMaxBlocks = 12'000;
/// A plan with more instructions gets no hover texts, which would be most of its bytes.
constexpr std::size_t kMaxHoverTexts = 4000;

constexpr std::string_view kTimelineStyle =
    ".l{font-size:10.5px;fill:#222;pointer-events:none}.d{fill:#fff}.n{pointer-events:none}"
    ".axis{stroke:var(--axis)}";
constexpr std::string_view kHatch =
    "<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><path d=\"M0 0V5\" stroke=\"#00000070\" stroke-width=\"2\"/>"
    "</pattern></defs>\n";
constexpr std::string_view kHatched = " fill=\"url(#hatch)\"";

struct Rows {
  explicit Rows(const Plan& plan)
      : first(plan.synthetic ? kTimelineTop + kRemark : kTimelineTop),
        count(static_cast<int>(plan.instructions.size())),
        height(count <= 8    ? 32
               : count <= 16 ? 22
               : count <= 32 ? 14
                             : 9),
        gap(count <= 8    ? 5
            : count <= 16 ? 4
                          : 2) {
    for (const auto& list : plan.instructions) {
      instructions += list.size();
      longest = std::max(longest, list.size());
    }
  }
  double top(int stage) const { return first + stage * (height + gap); }
  double bottom() const { return top(count); }

  double first;  ///< top of the first row
  int count;
  double height;
  double gap;
  std::size_t instructions = 0;
  std::size_t longest = 0;
};

std::string stage_name(int stage) {
  return concat({"stage ", std::to_string(stage)});
}

std::string title_of(const Plan& plan) {
  return plan.job.empty() ? "One iteration" : plan.job + ": one iteration";
}

class TimelineDrawing {
 public:
  explicit TimelineDrawing(const Plan& plan)
      : plan_(plan),
        scale_({&plan}),
        rows_(plan),
        svg_(kTimelineWidth, rows_.bottom() + kBelow, title_of(plan), kTimelineStyle) {}

  std::string draw() {
    svg_.raw(kHatch);
    svg_.text(kTimelineLeft, 24, "t", title_of(plan_));
    svg_.text(kTimelineLeft, 43, "", subtitle());
    svg_.text(kTimelineLeft, 43 + kRemark, "w", synthetic_remark(plan_));
    legend();
    for (int stage = 0; stage < rows_.count; ++stage) label_row(stage);
    if (static_cast<double>(rows_.longest) > kPlot / kNarrowest ||
        rows_.instructions > kMaxBlocks) {
      draw_columns();
    } else {
      for (int stage = 0; stage < rows_.count; ++stage) draw_blocks(stage);
      draw_transfers();
    }
    time_axis();
    return std::move(svg_).finish();
  }

 private:
  double x(Seconds time) const {
    const Seconds span = plan_.iteration_time;
    return kTimelineLeft + (span > Seconds{0} ? time / span * kPlot : 0);
  }
  void row_part(double from, double to, int stage, std::string_view attributes,
                std::string_view hover = {}) {
    svg_.rectangle(from, rows_.top(stage), to - from, rows_.height, attributes, hover);
  }

  std::string subtitle() const {
    const Seconds time = plan_.iteration_time;
    const Joules energy = plan_.iteration_energy;
    return concat({plan_.schedule, plan_.schedule.empty() ? "" : ", ", std::to_string(plan_.stages),
                   " stages, ", std::to_string(plan_.micro_batches), " micro-batches, ",
                   in_unit(time.value, time_unit(time.value)), ", ",
                   in_unit(energy.value, energy_unit(energy.value))});
  }

  void legend() {
    constexpr double kStep = 3;
    constexpr double kLength = kStep * PowerScale::kColours;
    const double left = kTimelineWidth - kTimelineRight - kLength;
    for (int i = 0; i < PowerScale::kColours; ++i) {
      svg_.rectangle(left + i * kStep, 14, kStep + 0.2, 10,
                     attribute("fill", PowerScale::colour(i)));
    }
    svg_.text(left - 10, 23, "e", "watts per GPU");
    const double low = scale_.low().value;
    const double high = scale_.high().value;
    const Ticks marks = ticks(low, high, 4);
    for (const double watts : marks.values) {
      const double at = left + (watts - low) / (high - low) * kLength;
      svg_.text(at, 38, "m", fixed(watts, marks.decimals));
    }
  }

  void label_row(int stage) {
    const int every = rows_.height >= 11 ? 1 : 4;
    if (stage % every != 0) return;
    svg_.text(kTimelineLeft - 10, rows_.top(stage) + rows_.height / 2 + 4, "e", stage_name(stage));
  }

  /// Draws one path for each colour, with lines as wide as a row: this takes the fewest bytes.
  void draw_columns() {
    constexpr int kColumns = static_cast<int>(kPlot);
    std::array<std::string, PowerScale::kColours> paths;
    std::array<std::pair<int, int>, PowerScale::kColours> ends;  // row and column of the last line
    ends.fill({-1, 0});
    for (int stage = 0; stage < rows_.count; ++stage) {
      const auto watts = average_power(plan_, stage, plan_.iteration_time, kColumns);
      const auto colour = [&](int column) {
        const double value = watts[static_cast<std::size_t>(column)];
        return value < 0 ? -1 : scale_.index(Watts{value});
      };
      for (int from = 0; from < kColumns;) {
        int to = from + 1;
        while (to < kColumns && colour(to) == colour(from)) ++to;
        if (colour(from) >= 0) {
          const auto index = static_cast<std::size_t>(colour(from));
          const std::string move =
              ends[index].first == stage
                  ? concat({"m", std::to_string(from - ends[index].second), " 0"})
                  : concat({"M", point(kTimelineLeft + from, rows_.top(stage) + rows_.height / 2)});
          paths[index] += concat({move, "h", std::to_string(to - from)});
          ends[index] = {stage, to};
        }
        from = to;
      }
    }
    svg_.raw(concat(
        {"<g shape-rendering=\"crispEdges\" stroke-width=\"", coordinate(rows_.height), "\">\n"}));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (paths[i].empty()) continue;
      svg_.raw(concat({"<path", attribute("stroke", PowerScale::colour(static_cast<int>(i))),
                       attribute("d", paths[i]), "/>\n"}));
    }
    svg_.raw("</g>\n");
  }

  void draw_blocks(int stage) {
    const Watts idle = blocking_power(plan_, stage);
    row_part(kTimelineLeft, x(plan_.iteration_time), stage,
             attribute("fill", PowerScale::colour(scale_.index(idle))),
             concat({stage_name(stage), " waits, ", fixed(idle.value, 1), " W"}));
    for (const auto& block : plan_.instructions[static_cast<std::size_t>(stage)]) {
      draw_block(stage, block);
    }
  }

  void draw_block(int stage, const PlannedInstruction& block) {
    const double from = x(block.start);
    const double to = x(block.start + block.time);
    const int colour = scale_.index(power(plan_, stage, block));
    row_part(from, to, stage,
             attribute("fill", PowerScale::colour(colour)) + border(block, to - from, colour),
             rows_.instructions <= kMaxHoverTexts ? hover(stage, block) : std::string());
    if (is_fixed_time(block.kind)) {
      row_part(from, to, stage, concat({kHatched, attribute("class", "n")}));
    }
    const std::string label = block_label(block);
    if (rows_.height >= 14 && static_cast<double>(label.size()) * kCharacter + 3 < to - from) {
      svg_.text((from + to) / 2, rows_.top(stage) + rows_.height / 2 + 3.7,
                PowerScale::is_deep(colour) ? "l m d" : "l m", label);
    }
  }

  /// Returns the border of a block, which is thicker for all kinds but forward; empty if the block
  /// is too narrow.
  static std::string border(const PlannedInstruction& block, double width, int colour) {
    if (width < 2) return {};
    const double line =
        std::min(block.kind == InstructionKind::kForward ? 0.35 : 1.2, width * 0.12);
    return attribute("stroke", PowerScale::border(colour)) +
           attribute("stroke-width", coordinate(line));
  }

  std::string hover(int stage, const PlannedInstruction& block) const {
    std::string words = concat({stage_name(stage), ", ", name(block.kind)});
    if (block.micro_batch >= 0) {
      words += concat({", micro-batch ", std::to_string(block.micro_batch)});
    }
    if (plan_.chunks > 1) words += concat({", chunk ", std::to_string(block.chunk)});
    if (block.clock.value > 0) words += concat({"\n", text_of(block.setting())});
    return concat({words, "\n", in_unit(block.time.value, time_unit(block.time.value)), ", ",
                   in_unit(block.energy.value, energy_unit(block.energy.value)), ", ",
                   fixed(power(plan_, stage, block).value, 1), " W per GPU"});
  }

  void draw_transfers() {
    if (plan_.transfers.mode != Transfers::Mode::kRendezvous) return;
    for (const Link& link : transfer_links(plan_)) {
      const auto [start, end] = transfer_interval(plan_, link);
      const std::string words = concat(
          {"transfer from ", stage_name(link.from_stage), " to ", stage_name(link.to_stage)});
      for (const int stage : {link.from_stage, link.to_stage}) {
        row_part(x(start), x(end), stage, kHatched, words);
      }
    }
  }

  void time_axis() {
    const double time = plan_.iteration_time.value;
    const DisplayUnit unit = time_unit(time);
    const Ticks marks = ticks(0, time / unit.divisor, 10);
    for (const double mark : marks.values) {
      const double at = x(Seconds{mark * unit.divisor});
      svg_.path("axis", concat({"M", point(at, rows_.bottom()), "v4"}));
      const bool last = mark == marks.values.back();
      svg_.text(at, rows_.bottom() + 19, "m",
                last ? concat({fixed(mark, marks.decimals), " ", unit.name})
                     : fixed(mark, marks.decimals));
    }
  }

  const Plan& plan_;
  PowerScale scale_;
  Rows rows_;
  SvgWriter svg_;
};

}  // namespace
}  // namespace harpe::report

namespace harpe {

std::string timeline_svg(const Plan& plan) {
  return report::TimelineDrawing(plan).draw();
}

}  // namespace harpe
