#pragma once
/// \file
/// The types of harpe._client, and their shared functions. Python.h must come first, since it sets
/// macros that other headers use. All functions require the interpreter's lock.

#include <Python.h>

#include "harpe/base/result.h"
#include "harpe/device/measure/energy_estimate.h"

namespace harpe {

/// Sets an exception with (code, text); harpe/errors.py converts it to a Python exception class.
void set_error(const Error& error);

/// Adds the type `PowerOptimizer` (power_optimizer_type.cc). \returns  -1 with an exception
int add_power_optimizer(PyObject* module);

/// Adds the type `EnergyMeter` and the function `carbon_intensity` (energy_meter_type.cc).
/// \returns  -1 with an exception
int add_energy_meter(PyObject* module);

/// Adds the function `measure_recorded` (recorded_windows_function.cc). \returns  -1 with an
/// exception
int add_measure_recorded(PyObject* module);

/// Returns (joules, error or None, sensor_error, seconds, source, unobserved, missing); joules are
/// None if nothing was read. Null with an exception.
PyObject* estimate_object(const EnergyEstimate& estimate);

/// Returns a list with the result of `make` for each item; null with an exception.
template <class Items, class Make>
PyObject* list_of(const Items& items, const Make& make) {
  PyObject* list = PyList_New(0);
  for (const auto& item : items) {
    PyObject* made = list == nullptr ? nullptr : make(item);
    if (made == nullptr || PyList_Append(list, made) != 0) Py_CLEAR(list);
    Py_XDECREF(made);
  }
  return list;
}

}  // namespace harpe
