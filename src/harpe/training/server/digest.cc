#include "harpe/training/server/digest.h"

#include <openssl/sha.h>

namespace harpe {

std::string digest_of(std::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace harpe
