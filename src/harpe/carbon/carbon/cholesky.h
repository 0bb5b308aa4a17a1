#pragma once
/// \file
/// Solver of linear systems with a symmetric positive definite matrix.

#include <cstddef>
#include <vector>

namespace harpe::carbon {

/// Solves A X = B with a Cholesky factorization. A has `n` rows, B has `n` rows of `columns`
/// values; both are stored by rows. Only the upper triangle of A is read. A is overwritten by its
/// factor, B by X. The order of operations is fixed: the same bytes with every compiler. Returns
/// false, with B undefined, if A is not positive definite. O(n^3 / 3 + 2 n^2 columns).
bool solve_positive_definite(std::vector<double>& a, std::size_t n, std::vector<double>& b,
                             std::size_t columns);

}  // namespace harpe::carbon
