#pragma once
/// \file
/// Writes SVG: system fonts, nothing fetched. A file of its own has a white ground and the light
/// colours of the palette as plain values, which every program for slides reads; a picture within a
/// page has the page's ground and its colours by name, light or dark.

#include <string>
#include <string_view>

#include "harpe/base/units.h"
#include "harpe/report/markup.h"

namespace harpe::report {

enum class Ground : unsigned char { kWhite, kPage };

/// `css` with each `var(--name)` replaced by the light colour of that name in the page's palette.
std::string light_colours(std::string_view css);

/// An attribute list for an element, such as " fill=\"#fff\"".
std::string attribute(std::string_view name, std::string_view value);

/// "12.5 7": a point in path data.
std::string point(double x, double y);

class SvgWriter {
 public:
  /// `style` names colours of the palette (`var(--ink)`). It is added to the rules for text that
  /// all pictures share: .t title, .k strong, .a Harpe's own, .w a warning, .e ends at x, .m
  /// centred on x.
  SvgWriter(double width, double height, std::string_view title, std::string_view style,
            Ground ground = Ground::kWhite);

  /// Content and hover texts are escaped; `attributes` and path data are not.
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
  /// Adds room before `low` and after `high`, as shares of the range.
  static Axis around(double low, double high, double before, double after, double from, double to);
};

struct TimeEnergyAxes {
  Axis time;    ///< seconds; from the left to the right edge of the plot
  Axis energy;  ///< joules; from the bottom to the top edge
  DisplayUnit time_unit, energy_unit;

  double x(Seconds seconds) const { return time.at(seconds.value); }
  double y(Joules joules) const { return energy.at(joules.value); }

  /// Draws both axes with ticks and titles, in the class "axis".
  /// \param energy_title  "iteration energy", whose unit is added
  /// \param title_above   pixels from the title of the energies to the plot
  void draw(SvgWriter& svg, std::string_view energy_title, double title_above) const;
};

}  // namespace harpe::report
