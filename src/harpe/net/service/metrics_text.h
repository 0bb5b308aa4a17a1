#pragma once
/// \file
/// Prometheus's text format (version 0.0.4).

#include <string>
#include <utility>
#include <vector>

namespace harpe::net {

/// Writer of metrics, family by family.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  enum class Type : unsigned char { kCounter, kGauge };

  /// Starts a family, which appears only if a sample follows.
  void family(const std::string& name, Type type, const std::string& help);
  void sample(double value, const Labels& labels = {});

  const std::string& text() const { return text_; }

 private:
  std::string text_, name_, header_;
};

}  // namespace harpe::net
