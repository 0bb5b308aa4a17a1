#include "simulation/require.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace harpe::simulation {
namespace {

std::function<void(const std::string&)>& teller() {
  static std::function<void(const std::string&)> tell;
  return tell;
}

}  // namespace

void on_broken(std::function<void(const std::string& what)> tell) {
  teller() = std::move(tell);
}

void broken(const std::string& what) {
  if (teller()) {
    teller()(what);
  } else {
    std::fprintf(stderr, "broken: %s\n", what.c_str());
  }
  std::fflush(nullptr);
  ::_exit(kBrokenStatus);
}

}  // namespace harpe::simulation
