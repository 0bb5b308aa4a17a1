#pragma once
/// \file
/// Places for the labels of a chart, in pixels, so that they can be read. chart.js does the same on
/// the page.

#include <string_view>
#include <vector>

namespace harpe::report {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
};

struct LabelPlace {
  double x = 0;         ///< where the text starts, or ends
  double baseline = 0;  ///< of the text
  bool ends_at_x = false;
};

/// Labels that were placed earlier keep their places, so that the important ones come first.
class Labels {
 public:
  /// \param plot  where labels have to stay
  explicit Labels(const Box& plot) : plot_(plot) {}

  /// Keeps labels off a text.
  void add(const LabelPlace& place, std::string_view text);
  /// Keeps labels off a mark, where there is another place.
  void add_mark(double x, double y) { marks_.push_back({x - 2, y - 2, x + 2, y + 2}); }

  /// Returns the place of a label near the mark at (x, y), and keeps others off it: beside the mark
  /// or, if `above`, above it, where that is free. O(labels + marks).
  LabelPlace place(double x, double y, double distance, std::string_view text, bool above);

 private:
  double cost(const Box& box) const;

  Box plot_;
  std::vector<Box> taken_;
  std::vector<Box> marks_;
};

}  // namespace harpe::report
