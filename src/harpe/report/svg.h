#pragma once
/// \file
/// An SVG writer: system fonts, no external resources. An SVG file has a white background and the
/// light colours of the palette as plain values, which every presentation program reads. A picture
/// within a page has the page's background and refers to its colours by name, light or dark.

#include <string>
#include <string_view>

#include "harpe/base/units.h"
#include "harpe/report/markup.h"

namespace harpe::report {

enum class Ground : unsigned char { kWhite, kPage };

/// Returns `css` with each `var(--name)` replaced by the palette's light colour of that name.
std::string light_colours(std::string_view css);

/// Returns an attribute for an element, such as " fill=\"#fff\"".
std::string attribute(std::string_view name, std::string_view value);

/// Returns a point in path data: "12.5 7".
std::string point(double x, double y);

class SvgWriter {
 public:
  /// \param style  may name colours of the palette (`var(--ink)`); added to the rules for text that
  ///               all pictures share: .t title, .k strong, .a Harpe's own, .w a warning, .e ends
  ///               at x, .m centred on x
  SvgWriter(double width, double height, std::string_view title, std::string_view style,
            Ground ground = Ground::kWhite);

  /// Escapes content and hover texts, but not `attributes` and path data.
  void text(double x, double y, std::string_view classes, std::string_view content);
  void path(std::string_view classes, std::string_view data);
  void circle(double x, double y, double radius, std::string_view attributes,
              std::string_view hover = {});
  void rectangle(double x, double y, double width, double height, std::string_view attributes,
                 std::string_view hover = {});
  void raw(std::string_view markup) { document_ += markup; }

  std::string finish() &&;

 private:
  void close(std::string_view element, std::string_view hover);
  std::string document_;
};

/// An axis of a chart of iteration energy over iteration time: a linear map from values to pixels.
struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;

  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
  /// Returns an axis with room before `low` and after `high`, given as shares of the range.
  static Axis around(double low, double high, double before, double after, double from, double to);
};

struct TimeEnergyAxes {
  Axis time;    ///< seconds; from left to right edge of the plot
  Axis energy;  ///< joules; from bottom to top edge
  DisplayUnit time_unit, energy_unit;

  double x(Seconds seconds) const { return time.at(seconds.value); }
  double y(Joules joules) const { return energy.at(joules.value); }

  /// Draws both axes with ticks and titles, in the class "axis".
  /// \param energy_title  such as "iteration energy"; the unit is added
  /// \param title_above   pixels between the title of the energy axis and the plot
  void draw(SvgWriter& svg, std::string_view energy_title, double title_above) const;
};

}  // namespace harpe::report
