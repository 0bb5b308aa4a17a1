#include "harpe/net/service/metrics_text.h"

#include <utility>

#include "harpe/base/text.h"

namespace harpe::net {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

}  // namespace

void MetricsText::family(const std::string& name, Type type, const std::string& help) {
  name_ = name;
  header_ = "# HELP " + name + " " + help + "\n# TYPE " + name +
            (type == Type::kCounter ? " counter\n" : " gauge\n");
}

void MetricsText::sample(double value, const Labels& labels) {
  text_ += std::exchange(header_, {}) + name_;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    text_.append(i == 0 ? "{" : ",")
        .append(labels[i].first + "=\"" + escaped(labels[i].second) + "\"");
  }
  text_ += (labels.empty() ? " " : "} ") + shortest(value) + "\n";
}

}  // namespace harpe::net
