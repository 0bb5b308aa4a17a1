#include "harpe/report/labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace harpe::report {
namespace {

// Of text of 12 px, in a wide font.
constexpr double kLabelCharacter = 7;
constexpr double kAscent = 11, kDescent = 3;

// Costs of a place, for each pixel that it covers. Each place further from the mark costs 1 more.
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

}  // namespace

void Labels::add(const LabelPlace& place, std::string_view text) {
  taken_.push_back(box_of(place, width_of(text)));
}

double Labels::cost(const Box& box) const {
  double cost = kOutside * (area(box) - overlap(box, plot_));
  for (const Box& label : taken_) cost += kOverLabel * overlap(box, label);
  for (const Box& mark : marks_) cost += kOverMark * overlap(box, mark);
  return cost;
}

LabelPlace Labels::place(double x, double y, double distance, std::string_view text, bool above) {
  constexpr std::array kBeside = {4.0, -13.0, 22.0, -29.0, 38.0, -45.0, 54.0};  // baseline below y
  constexpr std::array kAbove = {-13.0, 22.0, 4.0, -29.0, 38.0, -45.0, 54.0};
  const double width = width_of(text);
  const bool at_right = x + width / 2 > plot_.right - 4;
  const double in_plot = at_right ? plot_.right - 4 : std::max(plot_.left + 4, x - width / 2);
  LabelPlace best;
  double least = HUGE_VAL;
  double further = 0;
  for (const double below : above ? kAbove : kBeside) {
    // Between the two sides a label beside its mark lies over it.
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

}  // namespace harpe::report
