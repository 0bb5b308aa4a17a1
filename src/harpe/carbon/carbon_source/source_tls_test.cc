// Tokens are sent only over TLS with a trusted certificate of the host.

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "harpe/carbon/carbon_source/open_source.h"
#include "harpe/net/http/http_testing.h"

namespace harpe::carbon {
namespace {

class SourceTls : public testing::Test {
 public:
  /// Sends a request through all layers to the server, which counts requests.
  Result<std::string> ask(const std::string& url, const std::filesystem::path& trusted) {
    const auto fetcher = *net::HttpFetcher::open();
    ManualClock clock;
    SourceLink link(*fetcher, clock, [] { return UtcTime{1'767'261'600}; },
                    {.provider = "Example", .attempts = 2, .ca_file = trusted});
    return link.get(url + "/now", {{"auth-token", "s3cret"}}, {"s3cret"});
  }

  net::TestCertificate certificate;
  std::atomic<int> requests = 0;
  net::LocalServer server{[this](const net::HttpRequest&, const net::Reply& reply) {
                            ++requests;
                            net::HttpResponse response;
                            response.content_type = "application/json";
                            response.body = "{}";
                            reply(response);
                          },
                          {.port = 0, .certificate = &certificate, .limits = {}}};
};

TEST_F(SourceTls, ATrustedCertificateOfTheHostIsTaken) {
  const auto body = ask(server.url(), certificate.files().certificate);
  ASSERT_TRUE(body.ok()) << body.error().text();
  EXPECT_EQ(*body, "{}");
}

TEST_F(SourceTls, TheEnvironmentNamesCertificatesToTrust) {
  for (const bool named : {true, false}) {
    ManualClock clock;
    SourceEnvironment environment{
        .clock = clock,
        .variable = [&](const std::string& name) -> std::optional<std::string> {
          if (name == "HARPE_ELECTRICITY_MAPS_TOKEN") return "s3cret";
          if (named && name == "HARPE_CARBON_CA_FILE") return certificate.files().certificate;
          return std::nullopt;
        },
        .cache = {}};
    const auto source =
        open_source("electricity-maps:DE?url=" + server.url(), std::move(environment));
    ASSERT_TRUE(source.ok()) << source.error().text();
    (void)(*source)->current();
    EXPECT_EQ(requests, 1);
  }
}

TEST_F(SourceTls, NoRequestGoesToACertificateThatIsNotTrusted) {
  const auto body = ask(server.url(), {});
  ASSERT_FALSE(body.ok());
  EXPECT_EQ(body.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(body.error().text().find("certificate"), std::string::npos) << body.error().text();
  EXPECT_EQ(requests, 0);
}

TEST_F(SourceTls, NoRequestGoesToAHostThatTheCertificateIsNotOf) {
  const std::string url = "https://localhost:" + std::to_string(server.port());
  EXPECT_FALSE(ask(url, certificate.files().certificate).ok());
  EXPECT_EQ(requests, 0);
}

}  // namespace
}  // namespace harpe::carbon
