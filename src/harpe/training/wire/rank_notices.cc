#include "harpe/training/wire/rank_notices.h"

#include <algorithm>

#include "harpe/base/json_fields.h"

namespace harpe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostOfCoordinate = 1'000'000;
constexpr std::int64_t kLargestNumber = 9'000'000'000'000'000;
constexpr std::size_t kMostJobNotices = 4096;

int coordinate(Fields& fields, const char* name) {
  return static_cast<int>(fields.integer(name, 0, kMostOfCoordinate).value_or(0));
}

JobNotice read_notice(const JsonValue& object, Diagnostics& diagnostics) {
  Fields fields(object, "a notice", diagnostics);
  JobNotice notice;
  notice.number =
      static_cast<std::uint64_t>(fields.integer("number", 0, kLargestNumber).value_or(0));
  notice.count = static_cast<int>(fields.integer("count", 0, 1'000'000'000).value_or(0));
  notice.ranks = notice_text(fields.text("ranks").value_or(""));
  notice.text = notice_text(fields.text("text").value_or(""));
  return notice;
}

}  // namespace

std::string notice_text(std::string_view text) {
  std::string line(text.substr(0, RankNotices::kLongest));
  if (text.size() > line.size()) {  // not within a character of UTF-8
    std::size_t end = line.size();
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    line.resize(end);
  }
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
  return line;
}

std::string JobNotice::line(int ranks_of_job) const {
  if (ranks_of_job == 1) return text;
  if (count == ranks_of_job) return "all " + std::to_string(count) + " ranks: " + text;
  return (count == 1 ? "rank " : "ranks ") + ranks + ": " + text;
}

Result<RankNotices> parse_rank_notices(std::string_view text) {
  return read_document<RankNotices>(
      text, "the notices", [](Fields& fields, Diagnostics&, RankNotices& notices) {
        notices.coordinates = {.data = coordinate(fields, "data"),
                               .stage = coordinate(fields, "stage"),
                               .tensor = coordinate(fields, "tensor")};
        notices.session = short_text(fields, "session");
        if (notices.session.empty()) fields.error("session", "expected that of the rank");
        const auto texts = fields.texts("texts").value_or(std::vector<std::string>());
        if (texts.size() > RankNotices::kMost) {
          return fields.error("texts",
                              "has more than " + std::to_string(RankNotices::kMost) + " entries");
        }
        for (const std::string& one : texts) {
          if (one.size() > RankNotices::kLongest) {
            return fields.error("texts", "has one that is longer than " +
                                             std::to_string(RankNotices::kLongest) + " bytes");
          }
          notices.texts.push_back(notice_text(one));
        }
        notices.heard =
            static_cast<std::uint64_t>(fields.integer("heard", 0, kLargestNumber).value_or(0));
        notices.last = fields.boolean("last").value_or(false);
      });
}

std::string rank_notices_json(const RankNotices& notices) {
  Json json = {{"data", notices.coordinates.data},
               {"stage", notices.coordinates.stage},
               {"tensor", notices.coordinates.tensor},
               {"session", notices.session},
               {"texts", notices.texts}};
  if (notices.heard > 0) json["heard"] = notices.heard;
  if (notices.last) json["last"] = true;
  return json_line(json);
}

Result<NoticeResponse> parse_notice_response(std::string_view text) {
  const JsonValue document = HARPE_TRY(parse_json(text, "the response"));
  NoticeResponse response;
  HARPE_TRY(read_object(document, "the response", "the response", Unknown::kIgnored,
                        [&](Fields& fields, Diagnostics& diagnostics) {
                          response.taken = needed(fields, "taken", fields.boolean("taken"));
                          response.ranks = static_cast<int>(
                              fields.integer("ranks", 1, 1'000'000'000).value_or(1));
                          const auto notices = fields.objects("notices");
                          if (notices.size() > kMostJobNotices) {
                            return fields.error("notices", "has more than 4096 entries");
                          }
                          for (const JsonValue* item : notices) {
                            response.notices.push_back(read_notice(*item, diagnostics));
                          }
                        }));
  return response;
}

std::string notice_response_json(const NoticeResponse& response) {
  Json notices = Json::array();
  for (const JobNotice& one : response.notices) {
    notices.push_back(
        {{"number", one.number}, {"count", one.count}, {"ranks", one.ranks}, {"text", one.text}});
  }
  return json_line(
      {{"taken", response.taken}, {"ranks", response.ranks}, {"notices", std::move(notices)}});
}

}  // namespace harpe
