#pragma once
/// \file
/// Answers that may be long: one text for all who ask for it at once, sent a piece at a time.

#include <memory>
#include <string>

#include "harpe/net/http/http_message.h"

namespace harpe::training {

/// The text as a body; a long one as a stream that holds no copy of it.
net::HttpResponse long_response(std::string content_type, std::shared_ptr<const std::string> text);

}  // namespace harpe::training
