#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "harpe/report/curve.h"
#include "harpe/report/markup.h"
#include "harpe/report/report.h"
#include "harpe/report/svg.h"

namespace harpe::report {
namespace {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

struct LabelPlace {
  double x = 0;  ///< where the text begins, or ends if `ends_at_x`
  double baseline = 0;
  bool ends_at_x = false;
};

// Text of 12 px in a wide font.
constexpr double kLabelCharacter = 7;
constexpr double kAscent = 11, kDescent = 3;

// Cost of a place for each pixel outside the plot, over a label or over a mark. Each place further
// from the mark costs 1 more.
constexpr double kOutside = 100, kOverLabel = 10, kOverMark = 0.1;

double width_of(std::string_view text) {
  return kLabelCharacter * static_cast<double>(std::ranges::count_if(text, [](char byte) {
           return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // starts a UTF-8 sequence
         }));
}

Box box_of(const LabelPlace& place, double width) {
  const double left = place.ends_at_x ? place.x - width : place.x;
  return {left, place.baseline - kAscent, left + width, place.baseline + kDescent};
}

double overlap(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return width > 0 && height > 0 ? width * height : 0;
}

double area(const Box& box) {
  return (box.right - box.left) * (box.bottom - box.top);
}

/// Places for the labels of a chart, in pixels, that keep them readable. Earlier labels keep their
/// places, so the important ones come first. page/chart.js does the same in the page.
class Labels {
 public:
  /// \param plot  the area that labels stay in
  explicit Labels(const Box& plot) : plot_(plot) {}

  /// Keeps labels off a text.
  void add(const LabelPlace& place, std::string_view text) {
    taken_.push_back(box_of(place, width_of(text)));
  }

  /// Keeps labels off a mark if there is another place.
  void add_mark(double x, double y) { marks_.push_back({x - 2, y - 2, x + 2, y + 2}); }

  /// Returns the place of a label near the mark at (x, y) and keeps other labels off it. The label
  /// goes beside the mark or, if `above`, above it, if there is room. O(labels + marks).
  LabelPlace place(double x, double y, double distance, std::string_view text, bool above) {
    constexpr std::array kBeside = {4.0,  -13.0, 22.0, -29.0,
                                    38.0, -45.0, 54.0};  // baseline below y
    constexpr std::array kAbove = {-13.0, 22.0, 4.0, -29.0, 38.0, -45.0, 54.0};
    const double width = width_of(text);
    const bool at_right = x + width / 2 > plot_.right - 4;
    const double in_plot = at_right ? plot_.right - 4 : std::max(plot_.left + 4, x - width / 2);
    LabelPlace best;
    double least = HUGE_VAL;
    double further = 0;
    for (const double below : above ? kAbove : kBeside) {
      // A label between the two sides, at the height of its mark, would cover the mark.
      const double over_mark = std::abs(below - kBeside[0]) < kAscent ? 1000 : 0;
      for (const auto& [at, ends, more] : {std::tuple(x + distance, false, 0.0),
                                           {x - distance, true, 0.0},
                                           {in_plot, at_right, over_mark}}) {
        const LabelPlace place{at, y + below, ends};
        const double total = cost(box_of(place, width)) + more + further++;
        if (total >= least) continue;
        least = total;
        best = place;
      }
    }
    add(best, text);
    return best;
  }

 private:
  double cost(const Box& box) const {
    double cost = kOutside * (area(box) - overlap(box, plot_));
    for (const Box& label : taken_) cost += kOverLabel * overlap(box, label);
    for (const Box& mark : marks_) cost += kOverMark * overlap(box, mark);
    return cost;
  }

  Box plot_;
  std::vector<Box> taken_;
  std::vector<Box> marks_;
};

constexpr double kWidth = 900;
constexpr double kHeight = 560;
constexpr double kLeft = 78;
constexpr double kRight = 828;
constexpr double kTop = 104;
constexpr double kBottom = 400;
constexpr double kStripTop = 446;  ///< of the strip that shows gaps
constexpr double kStripBottom = 500;

constexpr std::string_view kStyle =
    ".axis{stroke:var(--axis);fill:none}.bound{stroke:var(--ink);stroke-width:1.1;fill:none}"
    ".free{stroke:var(--soft);stroke-dasharray:5 3;fill:none}"
    ".guide{stroke:var(--axis);stroke-dasharray:1 3;fill:none}"
    ".h{paint-order:stroke;stroke:var(--ground);stroke-width:4px;stroke-linejoin:round}"
    ".plan{fill:var(--ours)}.chosen{fill:none;stroke:var(--ours);stroke-width:2}"
    ".other{fill:var(--ground);stroke:var(--soft);stroke-width:1.2}"
    ".reference{fill:var(--ground);stroke:var(--ink);stroke-width:1.5}";
constexpr std::string_view kPlanDot = " class=\"plan\"";

class FrontierDrawing {
 public:
  FrontierDrawing(const ReportInput& input, Ground ground)
      : input_(input),
        is_late_(!input.late_bound.empty()),
        has_all_max_(input.all_max.iteration_time > Seconds{0}),
        svg_(kWidth, kHeight, concat({input.title, ": time and energy of an iteration"}), kStyle,
             ground) {
    double fast = INFINITY, slow = -INFINITY, least = INFINITY, most = -INFINITY;
    const auto include = [&](Seconds time, Joules energy) {
      fast = std::min(fast, time.value);
      slow = std::max(slow, time.value);
      least = std::min(least, energy.value);
      most = std::max(most, energy.value);
    };
    for (const auto& point : input.points) {
      include(point.time, point.energy);
      if (point.lower_bound > Joules{0}) widest_gap_ = std::max(widest_gap_, gap(point));
    }
    for (const auto& other : input.comparisons) include(other.time, other.energy);
    if (has_all_max_) include(input.all_max.iteration_time, input.all_max.iteration_energy);
    axes_.time = Axis::around(fast, slow, 0.03, 0.03, kLeft, kRight);
    axes_.energy = Axis::around(least, most, 0.16, 0.06, kBottom, kTop);
    // The units of all-max, as on the page.
    axes_.time_unit = time_unit(has_all_max_ ? input.all_max.iteration_time.value : slow);
    axes_.energy_unit = energy_unit(has_all_max_ ? input.all_max.iteration_energy.value : most);
  }

  std::string draw() {
    svg_.text(kLeft, 24, "t", input_.title.empty() ? "Frontier" : input_.title);
    if (has_all_max_)
      svg_.text(kLeft, 42, "",
                headline(all_max_for(input_, chosen_point(input_)), chosen_point(input_)));
    svg_.text(kLeft, 58, "w", synthetic_remark(chosen_point(input_).plan));
    axes_.draw(svg_, "iteration energy", 28);
    relative_axes();
    mark_times();
    draw_bounds();
    draw_points();
    draw_all_max();
    draw_comparisons();
    draw_chosen();
    draw_gaps();
    return std::move(svg_).finish();
  }

 private:
  double gap(const ReportPoint& point) const {
    return 100 * (point.energy / drawn_bound(input_, point) - 1);
  }
  double x(Seconds time) const { return axes_.x(time); }
  double y(Joules energy) const { return axes_.y(energy); }

  /// Draws the same ranges relative to all-max, at the top and at the right.
  void relative_axes() {
    if (!has_all_max_) return;
    const double time = input_.all_max.iteration_time.value;
    const double energy = input_.all_max.iteration_energy.value;
    const Ticks slower =
        ticks(100 * (axes_.time.low / time - 1), 100 * (axes_.time.high / time - 1), 6);
    for (const double mark : slower.values) {
      const double at = axes_.time.at(time * (1 + mark / 100));
      svg_.path("axis", concat({"M", point(at, kTop), "v-4"}));
      svg_.text(at, kTop - 8, "m", percent(mark, slower.decimals));
    }
    const Ticks less =
        ticks(100 * (axes_.energy.low / energy - 1), 100 * (axes_.energy.high / energy - 1), 6);
    for (const double mark : less.values) {
      const double at = axes_.energy.at(energy * (1 + mark / 100));
      svg_.path("axis", concat({"M", point(kRight, at), "h4"}));
      svg_.text(kRight + 8, at + 4, "", percent(mark, less.decimals));
    }
    svg_.text(kWidth - 8, kTop - 28, "e", "time (above) and energy (right) against all-max");
  }

  /// Returns a change in percent with its sign; the minus sign is U+2212.
  static std::string percent(double value, int decimals) {
    const std::string digits = fixed(std::abs(value), decimals);
    const bool zero = digits.find_first_not_of("0.") == std::string::npos;
    return concat({zero ? "" : value < 0 ? "\u2212" : "+", digits, "\u00A0%"});
  }

  void mark_times() {
    constexpr double kLabel = 90;
    const auto mark = [&](Seconds time, std::string_view name, bool left, double above) {
      if (time.value < axes_.time.low || time.value > axes_.time.high) return;
      svg_.path("guide", concat({"M", point(x(time), kTop), "V", coordinate(kBottom)}));
      const std::string words = concat({name, " ", in_unit(time.value, axes_.time_unit)});
      const LabelPlace place{x(time) + (left ? -5 : 5), kBottom - above, left};
      svg_.text(place.x, place.baseline, left ? "e" : "", words);
      labels_.add(place, words);
    };
    const Seconds fastest = fastest_time(input_);
    const Seconds least = least_energy_time(input_);
    const double distance = x(least) - x(fastest);
    mark(fastest, "T min", false, 8);
    if (distance > 4) mark(least, "T*", distance > kLabel, distance > 2 * kLabel ? 8 : 24);
  }

  void draw_bounds() {
    svg_.raw("<clipPath id=\"plot\">");
    svg_.rectangle(kLeft, kTop, kRight - kLeft, kBottom - kTop, "");
    svg_.raw("</clipPath>\n<g clip-path=\"url(#plot)\">");
    draw_bound(input_.bound, is_late_ ? "free" : "bound");
    draw_bound(input_.late_bound, "bound");
    svg_.raw("</g>\n");
  }

  void draw_bound(std::span<const CurvePoint> bound, std::string_view name) {
    std::string path;
    for (const auto& [time, energy] : shown_bound(bound)) {
      path += path.empty() ? "M" : "L";
      path += point(x(time), y(energy));
    }
    if (!path.empty()) svg_.path(name, path);
  }

  void draw_points() {
    for (const ReportPoint& p : input_.points) {
      svg_.circle(x(p.time), y(p.energy), 2.4, kPlanDot, hover(p));
      labels_.add_mark(x(p.time), y(p.energy));
    }
  }

  void label(Seconds time, Joules energy, double distance, std::string_view classes,
             std::string_view words, bool above = false) {
    const LabelPlace place = labels_.place(x(time), y(energy), distance, words, above);
    svg_.text(place.x, place.baseline, concat({classes, place.ends_at_x ? " e" : ""}), words);
  }

  void draw_all_max() {
    if (!has_all_max_) return;
    const Plan& all_max = input_.all_max;
    svg_.circle(x(all_max.iteration_time), y(all_max.iteration_energy), 4.5,
                " class=\"reference\"");
    label(all_max.iteration_time, all_max.iteration_energy, 10, "k",
          concat({"all-max: ", in_unit(all_max.iteration_time.value, axes_.time_unit), ", ",
                  in_unit(all_max.iteration_energy.value, axes_.energy_unit)}));
  }

  void draw_comparisons() {
    for (const auto& other : input_.comparisons) {
      svg_.circle(x(other.time), y(other.energy), 3.5, " class=\"other\"");
      label(other.time, other.energy, 8, "", other.name);
    }
  }

  /// Draws the chosen plan. Its label goes above the curve, where the chart is empty.
  void draw_chosen() {
    const ReportPoint& chosen = chosen_point(input_);
    svg_.circle(x(chosen.time), y(chosen.energy), 6.5, " class=\"chosen\"");
    label(chosen.time, chosen.energy, 10, "a h",
          concat({"chosen: ", in_unit(chosen.time.value, axes_.time_unit), ", ",
                  in_unit(chosen.energy.value, axes_.energy_unit)}),
          true);
  }

  std::string hover(const ReportPoint& p) const {
    std::string words = concat(
        {in_unit(p.time.value, axes_.time_unit), ", ", in_unit(p.energy.value, axes_.energy_unit)});
    if (p.lower_bound > Joules{0}) words += concat({", gap ", fixed(gap(p), 3), " %"});
    return words;
  }

  /// Draws the gaps between plans and bound, which are too small to see in the chart above.
  void draw_gaps() {
    if (!(widest_gap_ > 0)) return;
    const Axis axis{0, widest_gap_ * 1.1, kStripBottom, kStripTop};
    svg_.path("axis", concat({"M", point(kLeft, kStripTop), "V", coordinate(kStripBottom), "H",
                              coordinate(kRight)}));
    const Ticks marks = ticks(0, axis.high, 2);
    for (const double mark : marks.values) {
      svg_.path("axis", concat({"M", point(kLeft, axis.at(mark)), "h-4"}));
      svg_.text(kLeft - 8, axis.at(mark) + 4, "e",
                concat({fixed(mark, marks.decimals), "\u00A0%"}));
    }
    for (const ReportPoint& p : input_.points) {
      if (p.lower_bound > Joules{0}) svg_.circle(x(p.time), axis.at(gap(p)), 2, kPlanDot);
    }
    svg_.text(kLeft, kStripBottom + 22, "",
              is_late_ ? "Energy of each plan above the lower bound (the line in the chart). No "
                         "plan with clocks as late can be below it."
                       : "Energy of each plan above the lower bound (the line in the chart). No "
                         "choice of settings can be below it.");
    svg_.text(kLeft, kStripBottom + 39, "",
              concat({is_late_ ? "Dashed: the bound if changes were free. " : "",
                      "Energy of all GPUs of the pipeline, waiting included."}));
  }

  const ReportInput& input_;
  bool is_late_;
  bool has_all_max_;
  double widest_gap_ = 0;
  TimeEnergyAxes axes_;
  SvgWriter svg_;
  Labels labels_{{kLeft, kTop, kRight, kBottom}};
};

}  // namespace

std::string frontier_picture(const ReportInput& input, Ground ground) {
  if (input.points.empty()) {
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"560\"/>\n";
  }
  return FrontierDrawing(input, ground).draw();
}

}  // namespace harpe::report

namespace harpe {

std::string frontier_svg(const ReportInput& input) {
  return report::frontier_picture(input, report::Ground::kWhite);
}

}  // namespace harpe
