#include "harpe/carbon/carbon/cholesky.h"

#include <cmath>

namespace harpe::carbon {
namespace {

/// Subtracts factor * other[j] from each row[j].
void subtract(double* row, double factor, const double* other, std::size_t count) {
  for (std::size_t j = 0; j < count; ++j) row[j] -= factor * other[j];
}

}  // namespace

bool solve_positive_definite(std::vector<double>& a, std::size_t n, std::vector<double>& b,
                             std::size_t columns) {
  // Subtracts each row of the factor's transpose from the rows below as a whole, so that the inner
  // loops are contiguous in memory. The upper triangle of `a` stores this transpose.
  for (std::size_t k = 0; k < n; ++k) {
    double* pivot_row = &a[k * n];
    const double pivot = pivot_row[k];
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double root = std::sqrt(pivot);
    for (std::size_t j = k; j < n; ++j) pivot_row[j] /= root;
    for (std::size_t i = k + 1; i < n; ++i) {
      subtract(&a[i * n + i], pivot_row[i], pivot_row + i, n - i);
    }
    double* solved = &b[k * columns];
    for (std::size_t j = 0; j < columns; ++j) solved[j] /= root;
    for (std::size_t i = k + 1; i < n; ++i) {
      subtract(&b[i * columns], pivot_row[i], solved, columns);
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    double* row = &b[k * columns];
    for (std::size_t j = k + 1; j < n; ++j) {
      subtract(row, a[k * n + j], &b[j * columns], columns);
    }
    for (std::size_t j = 0; j < columns; ++j) row[j] /= a[k * n + k];
  }
  return true;
}

}  // namespace harpe::carbon
