#pragma once
/// \file
/// Linear systems with a symmetric positive definite matrix.

#include <cstddef>
#include <vector>

namespace harpe::carbon {

/// Solves A X = B by Cholesky's factors, A of `n` rows and B of n rows with `columns` values each,
/// both row by row, of A the upper triangle alone; A is overwritten by its factor, B by X. Plain
/// loops in one order: the same bytes with every compiler. False, with B undefined, where A is not
/// positive definite. O(n^3 / 3 + 2 n^2 columns).
bool solve_positive_definite(std::vector<double>& a, std::size_t n, std::vector<double>& b,
                             std::size_t columns);

}  // namespace harpe::carbon
