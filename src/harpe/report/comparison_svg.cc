#include "harpe/report/comparison_svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harpe/plan/profile/profile.h"
#include "harpe/report/markup.h"
#include "harpe/report/svg.h"

namespace harpe::report {
namespace {

constexpr std::string_view kComparisonStyle =
    ".axis{stroke:var(--axis);fill:none}.line{fill:none;stroke-width:2}"
    ".ours{stroke:var(--ours)}.l0{stroke:var(--c1)}.l1{stroke:var(--c2)}.l2{stroke:var(--c3)}"
    ".l3{stroke:var(--c4)}.l4{stroke:var(--c5)}.l5{stroke:var(--c6)}.l6{stroke:var(--c7)}"
    ".before{fill:var(--rule)}.after{fill:var(--ours)}";
constexpr std::array<std::string_view, 7> kRivalColours = {"--c1", "--c2", "--c3", "--c4",
                                                           "--c5", "--c6", "--c7"};

class ComparisonDrawing {
 public:
  explicit ComparisonDrawing(const ComparisonPicture& picture)
      : picture_(picture),
        bars_top_(picture.policies.empty() ? kChartTop : kChartBottom + 96),
        svg_(kWidth, height(), concat({picture.title, ": policies and schedules"}),
             kComparisonStyle) {}

  std::string draw() {
    svg_.text(kLeft - 60, 26, "t", picture_.title.empty() ? "Comparison" : picture_.title);
    svg_.text(kLeft - 60, 44, "", picture_.subtitle);
    if (picture_.is_synthetic) svg_.text(kLeft - 60, 60, "w", kSyntheticRemark);
    if (!picture_.policies.empty()) draw_policies();
    if (!picture_.schedules.empty()) draw_schedules();
    return std::move(svg_).finish();
  }

 private:
  double height() const {
    const double bars = static_cast<double>(picture_.schedules.size()) * kRow;
    return bars_top_ + (picture_.schedules.empty() ? -40 : bars + 20);
  }

  void draw_policies() {
    double fast = INFINITY, slow = -INFINITY, least = INFINITY, most = -INFINITY;
    const auto include = [&](const std::pair<Seconds, Joules>& point) {
      fast = std::min(fast, point.first.value);
      slow = std::max(slow, point.first.value);
      least = std::min(least, point.second.value);
      most = std::max(most, point.second.value);
    };
    for (const PolicyCurve& curve : picture_.policies) {
      include(curve.at_objective);
      std::ranges::for_each(curve.points, include);
    }
    axes_ = {.time = Axis::around(fast, slow, 0.04, 0.06, kLeft, kRight),
             .energy = Axis::around(least, most, 0.04, 0.06, kChartBottom, kChartTop),
             .time_unit = time_unit(slow),
             .energy_unit = energy_unit(most)};
    axes_.draw(svg_, concat({"iteration energy under ", picture_.schedule}), 14);
    std::size_t other = 0;
    double legend = kChartTop + 6;
    for (const PolicyCurve& curve : picture_.policies) {
      const std::string number = std::to_string(other % kRivalColours.size());
      const std::string_view colour =
          curve.is_ours ? "--ours" : kRivalColours[other % kRivalColours.size()];
      if (!curve.is_ours) ++other;
      draw_line(curve, curve.is_ours ? "line ours" : concat({"line l", number}));
      // All-max is a ring: another setting can lie on it.
      const std::string paint = light_colours(concat({"var(", colour, ")"}));
      const std::string mark = curve.points.size() > 1
                                   ? attribute("fill", paint)
                                   : attribute("fill", "none") + attribute("stroke", paint) +
                                         attribute("stroke-width", "2");
      svg_.circle(
          axes_.x(curve.at_objective.first), axes_.y(curve.at_objective.second),
          curve.points.size() > 1 ? 5 : 7, mark,
          concat({curve.name, ": ", in_unit(curve.at_objective.first.value, axes_.time_unit), ", ",
                  in_unit(curve.at_objective.second.value, axes_.energy_unit)}));
      svg_.circle(kRight + 24, legend - 4, 5, mark);
      svg_.text(kRight + 36, legend, curve.is_ours ? "a" : "k", curve.name);
      if (!curve.remark.empty()) svg_.text(kRight + 36, legend += 16, "", curve.remark);
      legend += 20;
    }
    svg_.text(kRight + 16, legend + 4, "", "\u25CF at the objective");
  }

  void draw_line(const PolicyCurve& curve, std::string_view classes) {
    if (curve.points.size() < 2) return;
    std::string path;
    for (const auto& [seconds, joules] : curve.points) {
      path += path.empty() ? "M" : "L";
      path += point(axes_.x(seconds), axes_.y(joules));
    }
    svg_.path(classes, path);
  }

  /// Draws two bars for each schedule: all-max, and a plan that is no slower.
  void draw_schedules() {
    double most = 0;
    for (const ScheduleBar& bar : picture_.schedules) most = std::max(most, bar.all_max.value);
    const Axis scale{0, most, kBarLeft, kBarRight};
    const DisplayUnit energy = energy_unit(most);
    svg_.text(kLeft - 60, bars_top_ - 14, "k",
              "Iteration energy of each schedule: at all-max (grey), and with Harpe's plan without "
              "slowdown");
    double top = bars_top_;
    for (const ScheduleBar& bar : picture_.schedules) {
      svg_.text(kBarLeft - 10, top + 12, "e k", bar.name);
      svg_.text(kBarLeft - 10, top + 26, "e", in_unit(bar.time.value, time_unit(bar.time.value)));
      svg_.rectangle(kBarLeft, top + 2, scale.at(bar.all_max.value) - kBarLeft, kBarHeight,
                     " class=\"before\"");
      svg_.rectangle(kBarLeft, top + 2 + kBarHeight, scale.at(bar.planned.value) - kBarLeft,
                     kBarHeight, " class=\"after\"");
      svg_.text(scale.at(bar.all_max.value) + 8, top + 13, "", in_unit(bar.all_max.value, energy));
      const double saved = 100 * (1 - bar.planned / bar.all_max);
      svg_.text(scale.at(bar.planned.value) + 8, top + 13 + kBarHeight, "a",
                concat({"\u2212", fixed(saved, 1), "\u00A0%"}));
      top += kRow;
    }
  }

  static constexpr double kWidth = 900, kLeft = 78, kRight = 660;
  static constexpr double kChartTop = 96, kChartBottom = 400;
  static constexpr double kBarLeft = 190, kBarRight = 760, kBarHeight = 13, kRow = 34;

  const ComparisonPicture& picture_;
  double bars_top_;
  TimeEnergyAxes axes_;
  SvgWriter svg_;
};

}  // namespace

std::string comparison_svg(const ComparisonPicture& picture) {
  return report::ComparisonDrawing(picture).draw();
}

}  // namespace harpe::report
