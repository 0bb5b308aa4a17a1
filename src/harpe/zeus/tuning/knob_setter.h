#pragma once
/// \file
/// Puts a setting in force on all GPUs of a job. The first setting of its knob is what was found,
/// so that nothing is ever raised, and `set(0)` is allowed wherever setting anything is.

#include <utility>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/zeus/power_limit/knob.h"

namespace harpe::zeus {

class KnobSetter {
 public:
  virtual ~KnobSetter() = default;
  virtual const Knob& knob() const = 0;
  virtual Status set(std::size_t setting) = 0;
  /// To be called again and again, from any thread: what is in force would end otherwise.
  virtual Status keep(Instant now) = 0;
  /// Everything as it was found.
  virtual Status restore() = 0;
};

/// Where nothing may or can be set: what was found stays, and is measured.
class NoSetter final : public KnobSetter {
 public:
  /// \param found  with one setting
  explicit NoSetter(Knob found) : found_(std::move(found)) {}
  const Knob& knob() const override { return found_; }
  Status set(std::size_t) override { return ok_status(); }
  Status keep(Instant) override { return ok_status(); }
  Status restore() override { return ok_status(); }

 private:
  Knob found_;
};

}  // namespace harpe::zeus
