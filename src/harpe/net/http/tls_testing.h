#pragma once
/// \file
/// A certificate for 127.0.0.1 with its key, new for each test.

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "harpe/base/test_directory_testing.h"
#include "harpe/net/http/http_server.h"

namespace harpe::net {

/// Its files are removed by the destructor.
class TestCertificate {
 public:
  TestCertificate() {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  &EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME* name = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), name);
    X509_EXTENSION* address =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate.get(), address, -1);
    X509_EXTENSION_free(address);
    EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
    write("certificate", [&](FILE* file) { return PEM_write_X509(file, certificate.get()); });
    write("key", [&](FILE* file) {
      return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }

  TlsFiles files() const { return {folder_ / "certificate", folder_ / "key"}; }

 private:
  template <class Write>
  void write(const std::string& name, Write&& write) {
    FILE* file = std::fopen((folder_ / name).c_str(), "w");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(write(file), 1);
    std::fclose(file);
    ::chmod((folder_ / name).c_str(), 0600);
  }

  const TestDirectory folder_;
};

}  // namespace harpe::net
