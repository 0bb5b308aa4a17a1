#pragma once
/// \file
/// What links to providers have in common, and what all documents of ENTSO-E need.

#include <string>

#include "harpe/carbon/carbon_source/open_source.h"
#include "harpe/carbon/carbon_source/source_link.h"

namespace harpe {

/// \param calls  in 60 s, well below what the provider allows
SourceLinkOptions provider_link_options(const SourceEnvironment& environment, std::string provider,
                                        std::string token_advice, int calls);

/// Where to look, and how to get a token.
std::string token_advice_of(const ApiTokenNames& names);

ApiTokenNames entsoe_token_names();
SourceLinkOptions entsoe_link_options(const SourceEnvironment& environment);

}  // namespace harpe
