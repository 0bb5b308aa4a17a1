#include "harpe/carbon/carbon_source/provider_link.h"

#include <utility>

namespace harpe {

SourceLinkOptions provider_link_options(const SourceEnvironment& environment, std::string provider,
                                        std::string token_advice, int calls) {
  return {.provider = std::move(provider),
          .token_advice = std::move(token_advice),
          .timeout = environment.timeout,
          .calls = calls,
          .seed = environment.seed,
          .ca_file = environment.variable("HARPE_CARBON_CA_FILE").value_or("")};
}

std::string token_advice_of(const ApiTokenNames& names) {
  return "Check the token in " + names.variable + " or ~/.config/harpe/" + names.file + ". " +
         names.advice;
}

ApiTokenNames entsoe_token_names() {
  return {.variable = "HARPE_ENTSOE_TOKEN",
          .file = "entsoe.token",
          .advice =
              "Register at https://transparency.entsoe.eu and ask transparency@entsoe.eu for "
              "access to the RESTful API"};
}

SourceLinkOptions entsoe_link_options(const SourceEnvironment& environment) {
  constexpr int kCalls = 100;
  SourceLinkOptions options =
      provider_link_options(environment, "ENTSO-E", token_advice_of(entsoe_token_names()), kCalls);
  options.expected_type = "xml";
  options.also_read = 400;  // with which a document says that there is no data
  return options;
}

}  // namespace harpe
