#pragma once
/// \file
/// The types of harpe._client, and what they share. After Python.h alone, which defines what other
/// headers go by. All functions hold the interpreter's lock.

#include <Python.h>

#include "harpe/base/result.h"

namespace harpe {

/// The exception says (code, text); harpe/errors.py makes one of Python's kinds of it.
void set_error(const Error& error);

/// Adds the type `PowerOptimizer` (power_optimizer_type.cc). \returns  -1 with an exception
int add_power_optimizer(PyObject* module);

/// Adds the type `EnergyMeter` and the function `carbon_intensity` (energy_meter_type.cc).
/// \returns  -1 with an exception
int add_energy_meter(PyObject* module);

}  // namespace harpe
