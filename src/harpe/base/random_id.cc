#include "harpe/base/random_id.h"

#include <sys/random.h>

#include <string_view>
#include <vector>

namespace harpe {

std::string random_id(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  for (std::size_t filled = 0; filled < bytes;) {
    const ssize_t count = ::getrandom(random.data() + filled, bytes - filled, 0);
    if (count > 0) filled += static_cast<std::size_t>(count);  // a signal may interrupt it
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (const unsigned char byte : random) {
    id += kDigits[byte >> 4];
    id += kDigits[byte & 15];
  }
  return id;
}

}  // namespace harpe
