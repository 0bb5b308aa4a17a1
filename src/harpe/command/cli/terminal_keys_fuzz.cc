// Any typed bytes: there are at most as many keys as bytes, and each key is a valid one.

#include <cstdint>
#include <cstdlib>

#include "harpe/command/cli/live_terminal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto keys = harpe::command::keys_of({reinterpret_cast<const char*>(data), size});
  if (keys.size() > size) std::abort();
  for (const harpe::command::KeyPress& press : keys) {
    const bool printable = press.character >= ' ' && press.character <= '~';
    if (printable != (press.key == harpe::command::Key::kCharacter)) std::abort();
  }
  return 0;
}
