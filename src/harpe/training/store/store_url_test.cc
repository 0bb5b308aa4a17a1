#include "harpe/training/store/store_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "harpe/training/store/store_url_testing.h"

namespace harpe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string diagnostics_of(const std::string& text) {
  const auto url = StoreUrl::parse(text);
  return url.ok() ? "read as " + url->text() : url.error().text();
}

TEST(StoreUrl, NamesASqliteFile) {
  const auto url = StoreUrl::parse("sqlite:/var/lib/harpe/jobs 1.db");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->kind, StoreUrl::Kind::kSqlite);
  EXPECT_EQ(url->path, "/var/lib/harpe/jobs 1.db");
  EXPECT_EQ(StoreUrl::parse("sqlite:jobs.db")->path, "jobs.db");
}

TEST(StoreUrl, NamesAPostgresqlDatabase) {
  const auto url = StoreUrl::parse(
      "postgresql://har%20pe:s%3Ae%40c@db1:5433,[2001:db8::1],%2Frun%2Fpg/jo%2Fbs?sslmode=require&"
      "schema=training");
  ASSERT_TRUE(url.ok()) << url.error().text();
  EXPECT_EQ(url->kind, StoreUrl::Kind::kPostgresql);
  EXPECT_EQ(url->user, "har pe");
  EXPECT_EQ(url->password, "s:e@c");
  EXPECT_EQ(url->hosts,
            (std::vector<StoreUrl::Host>{{"db1", 5433}, {"2001:db8::1", 0}, {"/run/pg", 0}}));
  EXPECT_EQ(url->database, "jo/bs");
  EXPECT_EQ(url->parameters.size(), 2U);
  EXPECT_EQ(url->text(),
            "postgresql://har%20pe:***@db1:5433,[2001:db8::1],%2Frun%2Fpg/jo%2Fbs?sslmode=require&"
            "schema=training");
}

TEST(StoreUrl, LeavesToTheLibraryWhatIsNotSaid) {
  const auto url = StoreUrl::parse("postgres:///");
  ASSERT_TRUE(url.ok()) << url.error().text();
  EXPECT_TRUE(url->hosts.empty());
  EXPECT_TRUE(url->user.empty());
  EXPECT_TRUE(url->database.empty());
}

TEST(StoreUrl, SaysWhatIsWrongAndWhatToWrite) {
  EXPECT_THAT(diagnostics_of(""),
              HasSubstr("write sqlite:/var/lib/harpe/harpe.db or postgresql://"));
  EXPECT_THAT(diagnostics_of("/var/lib/harpe.db"), HasSubstr("for a file write sqlite:/"));
  EXPECT_THAT(diagnostics_of("mysql://host/db"), HasSubstr("not the URL of a store"));
  EXPECT_THAT(diagnostics_of("sqlite:"), HasSubstr("no file"));
  EXPECT_THAT(diagnostics_of("sqlite:///tmp/x.db"), HasSubstr("right after sqlite:"));
  EXPECT_THAT(diagnostics_of("sqlite::memory:"), HasSubstr("would not survive"));
  EXPECT_THAT(diagnostics_of("sqlite:x.db?mode=ro"), HasSubstr("no parameters"));
  EXPECT_THAT(diagnostics_of("sqlite:/var/lib/"), HasSubstr("directory"));
  EXPECT_THAT(diagnostics_of(std::string("sqlite:a\0b", 10)), HasSubstr("bytes below a space"));
  EXPECT_THAT(diagnostics_of("postgresql:host/db"), HasSubstr("no // after"));
  EXPECT_THAT(diagnostics_of("postgresql://h:0/d"), HasSubstr("port '0' is not a number from 1"));
  EXPECT_THAT(diagnostics_of("postgresql://h:65536/d"), HasSubstr("65535"));
  EXPECT_THAT(diagnostics_of("postgresql://h:+1/d"), HasSubstr("port"));
  EXPECT_THAT(diagnostics_of("postgresql://h:/d"), HasSubstr("port"));
  EXPECT_THAT(diagnostics_of("postgresql://h,/d"), HasSubstr("host without a name"));
  EXPECT_THAT(diagnostics_of("postgresql://[1.2.3.4]/d"), HasSubstr("not an IPv6 address"));
  EXPECT_THAT(diagnostics_of("postgresql://[::1/d"), HasSubstr("not an IPv6 address"));
  EXPECT_THAT(diagnostics_of("postgresql://a b/d"), HasSubstr("a character that no host has"));
  EXPECT_THAT(diagnostics_of("postgresql://h/a/b"), HasSubstr("%2F"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d%4"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d%"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d%00"), HasSubstr("bytes below a space"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d#f"), HasSubstr("%23"));
  EXPECT_THAT(diagnostics_of("postgresql://@h/d"), HasSubstr("no user"));
  EXPECT_THAT(diagnostics_of("postgresql://u:@h/d"), HasSubstr("~/.pgpass"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmod=require"),
              HasSubstr("did you mean sslmode?"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmode=maybe"), HasSubstr("verify-full"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmode"), HasSubstr("no value"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmode=require&sslmode=disable"),
              HasSubstr("twice"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?connect_timeout=soon"), HasSubstr("seconds"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?schema=a;b"), HasSubstr("letters, digits"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?host=/run"), HasSubstr("another as a parameter"));
  EXPECT_THAT(diagnostics_of("postgresql:///d?host=db1"), HasSubstr("Unix socket"));
}

TEST(StoreUrl, SaysAllErrorsAtOnce) {
  const auto url = StoreUrl::parse("postgresql://h:99999/a/b?x=1");
  ASSERT_FALSE(url.ok());
  EXPECT_EQ(url.error().diagnostics.size(), 3U);
  EXPECT_EQ(url.error().code, ErrorCode::kInvalidInput);
}

TEST(StoreUrl, NoErrorShowsAPassword) {
  const std::string secret = "Zq7Zq7Zq7";
  for (const std::string& password :
       {secret, secret + "@x", secret + ":y", secret + "%zz", "%0" + secret, secret + "/",
        secret + "?a", secret + "#", "%01" + secret}) {
    for (const char* rest :
         {"@h/d", "@h:0/d", "@/d%", "@h/d?x=1", "@h/d?password=Zq7Zq7Zq7", "@h h/"}) {
      for (const char* scheme : {"postgresql://u:", "postgresq://u:", "postgresql:/u:", "u:"}) {
        EXPECT_THAT(diagnostics_of(scheme + password + rest), Not(HasSubstr("Zq7")));
      }
    }
  }
}

TEST(StoreUrl, ReadsBackWhateverItWritesAsLibpqDoes) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto below = [&](int limit) {
    return std::uniform_int_distribution<int>(0, limit - 1)(random);
  };
  const auto word = [&] {
    std::string text;
    for (int i = 1 + below(6); i > 0; --i) text += static_cast<char>(' ' + below(95));
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    StoreUrl url;
    url.kind = StoreUrl::Kind::kPostgresql;
    if (below(2) == 1) url.user = word();
    if (!url.user.empty() && below(2) == 1) url.password = word();
    for (int i = below(3); i > 0; --i) {
      const char* const names[] = {"db1.example.org", "10.0.0.1", "::1", "/run/a b%:@", "db_2"};
      const int which = below(5);
      const int port = below(2) * (1 + below(65535));
      url.hosts.push_back({names[which], port});
    }
    url.database = word();
    url.parameters.emplace_back("passfile", word());
    const auto read = StoreUrl::parse(url.text_with_password());
    ASSERT_TRUE(read.ok()) << url.text_with_password() << "\n" << read.error().text();
    EXPECT_EQ(*read, url) << url.text_with_password();
    EXPECT_EQ(read_by_libpq(url.text_with_password()), expected_of_libpq(url));
  }
}

}  // namespace
}  // namespace harpe
