#include "harpe/training/store/store_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <string_view>

namespace harpe::training {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string diagnostics_of(const std::string& text) {
  const auto url = StoreUrl::parse(text);
  return url.ok() ? "read as " + url->text : url.error().text();
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
  EXPECT_THAT(url->parameters,
              UnorderedElementsAre(Pair("user", "har pe"), Pair("password", "s:e@c"),
                                   Pair("host", "db1,2001:db8::1,/run/pg"), Pair("port", "5433,,"),
                                   Pair("dbname", "jo/bs"), Pair("sslmode", "require"),
                                   Pair("schema", "training")));
  EXPECT_EQ(url->text,
            "postgresql://har%20pe:***@db1:5433,[2001:db8::1],%2Frun%2Fpg/jo%2Fbs?sslmode=require&"
            "schema=training");
}

TEST(StoreUrl, LeavesToTheLibraryWhatIsNotSaid) {
  const auto url = StoreUrl::parse("postgres:///");
  ASSERT_TRUE(url.ok()) << url.error().text();
  EXPECT_THAT(url->parameters, IsEmpty());
}

TEST(StoreUrl, SaysWhatIsWrongAndWhatToWrite) {
  EXPECT_THAT(diagnostics_of(""),
              HasSubstr("write sqlite:/var/lib/harpe/harpe.db or postgresql://"));
  EXPECT_THAT(diagnostics_of("/var/lib/harpe.db"), HasSubstr("for a file write sqlite:/"));
  EXPECT_THAT(diagnostics_of("mysql://host/db"), HasSubstr("not the URL of a store"));
  EXPECT_THAT(diagnostics_of("sqlite:"), HasSubstr("is missing"));
  EXPECT_THAT(diagnostics_of("sqlite:///tmp/x.db"), HasSubstr("must follow sqlite: directly"));
  EXPECT_THAT(diagnostics_of("sqlite::memory:"), HasSubstr("would be lost"));
  EXPECT_THAT(diagnostics_of("sqlite:x.db?mode=ro"), HasSubstr("no parameters"));
  EXPECT_THAT(diagnostics_of("sqlite:/var/lib/"), HasSubstr("directory"));
  EXPECT_THAT(diagnostics_of(std::string("sqlite:a\0b", 10)), HasSubstr("control characters"));
  EXPECT_THAT(diagnostics_of("postgresql:host/db"), HasSubstr("// is missing after"));
  EXPECT_THAT(diagnostics_of("postgresql://h:0/d"), HasSubstr("port '0' is not a number from 1"));
  EXPECT_THAT(diagnostics_of("postgresql://h:65536/d"), HasSubstr("65535"));
  EXPECT_THAT(diagnostics_of("postgresql://h:+1/d"), HasSubstr("port"));
  EXPECT_THAT(diagnostics_of("postgresql://h:/d"), HasSubstr("port"));
  EXPECT_THAT(diagnostics_of("postgresql://h,/d"), HasSubstr("name of a host is missing"));
  EXPECT_THAT(diagnostics_of("postgresql://[1.2.3.4]/d"), HasSubstr("not an IPv6 address"));
  EXPECT_THAT(diagnostics_of("postgresql://[::1/d"), HasSubstr("not an IPv6 address"));
  EXPECT_THAT(diagnostics_of("postgresql://a b/d"),
              HasSubstr("a character that is not allowed in a host"));
  EXPECT_THAT(diagnostics_of("postgresql://h/a/b"), HasSubstr("%2F"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d%4"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d%"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d%00"), HasSubstr("control characters"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d#f"), HasSubstr("%23"));
  EXPECT_THAT(diagnostics_of("postgresql://@h/d"), HasSubstr("the user before"));
  EXPECT_THAT(diagnostics_of("postgresql://u:@h/d"), HasSubstr("~/.pgpass"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmod=require"),
              HasSubstr("did you mean sslmode?"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmode=maybe"), HasSubstr("verify-full"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmode"), HasSubstr("no value"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?sslmode=require&sslmode=disable"),
              HasSubstr("twice"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?connect_timeout=soon"), HasSubstr("seconds"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?schema=a;b"), HasSubstr("letters, digits"));
  EXPECT_THAT(diagnostics_of("postgresql://h/d?host=/run"), HasSubstr("and as a parameter"));
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

std::string encoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    ((result += '%') += kHex[byte >> 4]) += kHex[byte & 15];
  }
  return result;
}

TEST(StoreUrl, ReadsAnyTextThatIsEncoded) {
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
    std::map<std::string, std::string> expected{{"dbname", word()}, {"passfile", word()}};
    std::string user, shown_user;
    if (below(2) == 1) {
      expected["user"] = word();
      user = encoded(expected["user"]);
      shown_user = user;
      if (below(2) == 1) {
        expected["password"] = word();
        user += ":" + encoded(expected["password"]);
        shown_user += ":***";
      }
      user += '@';
      shown_user += '@';
    }
    std::string hosts, ports;
    const int count = below(3);
    for (int i = 0; i < count; ++i) {
      const char* const names[] = {"db1.example.org", "10.0.0.1", "::1", "/run/a b%:@", "db_2"};
      const std::string name = names[below(5)];
      const std::string comma = i > 0 ? "," : "";
      const std::string port = below(2) == 1 ? std::to_string(1 + below(65535)) : "";
      expected["host"] += comma + name;
      ports += comma + port;
      hosts += comma + (name == "::1" ? "[::1]" : name[0] == '/' ? encoded(name) : name);
      if (!port.empty()) hosts += ":" + port;
    }
    if (!ports.empty()) expected["port"] = ports;
    const std::string rest =
        hosts + "/" + encoded(expected["dbname"]) + "?passfile=" + encoded(expected["passfile"]);
    const auto read = StoreUrl::parse("postgresql://" + user + rest);
    ASSERT_TRUE(read.ok()) << user << rest << "\n" << read.error().text();
    EXPECT_EQ(read->parameters, expected) << user << rest;
    EXPECT_EQ(read->text, "postgresql://" + shown_user + rest);
  }
}

}  // namespace
}  // namespace harpe::training
