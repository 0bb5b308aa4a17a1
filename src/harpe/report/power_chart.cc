#include "harpe/report/power_chart.h"

#include <algorithm>
#include <utility>

#include "harpe/report/markup.h"
#include "harpe/report/svg.h"

namespace harpe::report {
namespace {

constexpr std::string_view kPowerStyle =
    ".axis{stroke:var(--axis);fill:none}.rule{stroke:var(--rule)}.line{fill:none;stroke-width:1.4}"
    ".ours{stroke:var(--ours)}.l0{stroke:var(--c1)}.l1{stroke:var(--c2)}.l2{stroke:var(--c3)}"
    ".l3{stroke:var(--c4)}.l4{stroke:var(--c5)}.l5{stroke:var(--c6)}.l6{stroke:var(--c7)}";
constexpr std::size_t kOtherCurves = 7;

DisplayUnit power_unit(double watts) {
  if (watts >= 1e6) return {1e6, "MW"};
  return watts >= 1e3 ? DisplayUnit{1e3, "kW"} : DisplayUnit{1, "W"};
}

class PowerDrawing {
 public:
  PowerDrawing(const PowerChart& chart, Ground ground)
      : chart_(chart),
        top_(ground == Ground::kPage ? 34 : 102),
        svg_(kWidth, top_ + kChartHeight + kFoot,
             chart.title.empty() ? "Power over time" : chart.title, kPowerStyle, ground) {
    if (ground == Ground::kPage) return;
    svg_.text(10, 26, "t", chart.title);
    svg_.text(10, 44, "", chart.subtitle);
    svg_.text(10, 60, "w", chart.doubt);
  }

  std::string draw() {
    std::size_t longest = 1;
    double most = 1e-9;
    for (const PowerCurve& curve : chart_.curves) {
      longest = std::max(longest, curve.watts.size());
      for (const double watts : curve.watts) most = std::max(most, watts);
    }
    time_ = {0, static_cast<double>(longest) * chart_.step.value, kLeft, kRight};
    power_ = {0, 1.05 * most, top_ + kChartHeight, top_};
    draw_axes(power_unit(most));
    double legend = kLeft + 80;
    for (const bool ours : {false, true}) {
      std::size_t number = 0;
      for (const PowerCurve& curve : chart_.curves) {
        const std::string colour =
            curve.is_ours ? "ours" : "l" + std::to_string(number++ % kOtherCurves);
        if (curve.is_ours == ours) draw_curve(curve, concat({"line ", colour}), legend);
      }
    }
    return std::move(svg_).finish();
  }

 private:
  static constexpr double kWidth = 900, kLeft = 64, kRight = 880, kChartHeight = 260, kFoot = 44;

  void draw_axes(const DisplayUnit& unit) {
    const double bottom = top_ + kChartHeight;
    const Ticks powers = ticks(0, power_.high / unit.divisor, 6);
    for (const double mark : powers.values) {
      const double y = power_.at(mark * unit.divisor);
      svg_.path("rule", concat({"M", point(kLeft, y), "H", coordinate(kRight)}));
      svg_.text(kLeft - 8, y + 4, "e", fixed(mark, powers.decimals));
    }
    svg_.text(10, top_ - 14, "k", unit.name);
    svg_.path("axis", concat({"M", point(kLeft, bottom), "H", coordinate(kRight)}));
    const DisplayUnit seconds = time_unit(time_.high);
    const Ticks times = ticks(0, time_.high / seconds.divisor, 10);
    for (const double mark : times.values) {
      const double x = time_.at(mark * seconds.divisor);
      svg_.path("axis", concat({"M", point(x, bottom), "v4"}));
      svg_.text(x, bottom + 18, "m", fixed(mark, times.decimals));
    }
    svg_.text(kRight, bottom + 36, "e k", concat({"time, ", seconds.name}));
  }

  /// Draws one point per pixel: the mean of its steps.
  void draw_curve(const PowerCurve& curve, std::string_view classes, double& legend) {
    const auto pixels = static_cast<std::size_t>(kRight - kLeft);
    const std::size_t each = std::max<std::size_t>(1, (curve.watts.size() + pixels - 1) / pixels);
    std::string path;
    for (std::size_t begin = 0; begin < curve.watts.size(); begin += each) {
      const std::size_t end = std::min(begin + each, curve.watts.size());
      double sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum += curve.watts[i];
      const double middle = 0.5 * static_cast<double>(begin + end) * chart_.step.value;
      path += concat({path.empty() ? "M" : "L",
                      point(time_.at(middle), power_.at(sum / static_cast<double>(end - begin)))});
    }
    if (!path.empty()) svg_.path(classes, path);
    svg_.path(classes, concat({"M", point(legend, top_ - 18), "h22"}));
    svg_.text(legend + 28, top_ - 14, curve.is_ours ? "a" : "k", curve.name);
    legend += 60 + 7.0 * static_cast<double>(curve.name.size());
  }

  const PowerChart& chart_;
  double top_;
  Axis time_, power_;
  SvgWriter svg_;
};

}  // namespace

std::string power_chart_svg(const PowerChart& chart) {
  return report::PowerDrawing(chart, report::Ground::kWhite).draw();
}

std::string power_chart_figure(const PowerChart& chart) {
  return report::PowerDrawing(chart, report::Ground::kPage).draw();
}

}  // namespace harpe::report
