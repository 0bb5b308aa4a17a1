#include "harpe/training/server/long_response.h"

#include <functional>
#include <utility>

namespace harpe::training {
namespace {

constexpr std::size_t kLong = 1024 * 1024, kPiece = 128 * 1024;

class Pieces final : public net::EventStream {
 public:
  explicit Pieces(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}
  void start(std::function<void()> wake) override { wake(); }
  std::string take() override {
    std::string piece = text_->substr(at_, kPiece);
    at_ += piece.size();
    return piece;
  }
  bool ended() const override { return at_ == text_->size(); }

 private:
  const std::shared_ptr<const std::string> text_;
  std::size_t at_ = 0;
};

}  // namespace

net::HttpResponse long_response(std::string content_type, std::shared_ptr<const std::string> text) {
  if (text->size() <= kLong) return {.content_type = std::move(content_type), .body = *text};
  return {.content_type = std::move(content_type),
          .stream = std::make_shared<Pieces>(std::move(text))};
}

}  // namespace harpe::training
