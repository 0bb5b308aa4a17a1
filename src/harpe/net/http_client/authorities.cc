#include "harpe/net/http_client/authorities.h"

#include <curl/curl.h>

#include <array>
#include <system_error>

namespace harpe::net {
namespace {

bool is_there(const char* file) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(file, unknown);
}

// The files that Go's crypto/x509 looks for (root_linux.go), in its order.
constexpr std::array kUsualFiles = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Gentoo
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL 6
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/pki/tls/cacert.pem",                            // OpenELEC
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL 7 and later
    "/etc/ssl/cert.pem"};                                 // Alpine

}  // namespace

std::span<const char* const> usual_authority_files() {
  return kUsualFiles;
}

std::string authorities_among(const char* built_in, std::span<const char* const> others) {
  if (built_in != nullptr && is_there(built_in)) return built_in;
  for (const char* const file : others) {
    if (is_there(file)) return file;
  }
  return {};
}

std::string authorities_file(const std::filesystem::path& of_user) {
  if (!of_user.empty()) return of_user.string();
  const curl_version_info_data* const built = curl_version_info(CURLVERSION_NOW);
  // A folder that libcurl knows serves as well as a file.
  std::error_code unknown;
  if (built->capath != nullptr && std::filesystem::is_directory(built->capath, unknown)) return {};
  const std::string found = authorities_among(built->cainfo, usual_authority_files());
  return built->cainfo != nullptr && found == built->cainfo ? std::string() : found;
}

}  // namespace harpe::net
