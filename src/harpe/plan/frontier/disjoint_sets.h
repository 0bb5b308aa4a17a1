#pragma once
/// \file
/// Disjoint sets of numbers with union and find.

#include <numeric>
#include <vector>

namespace harpe::plan {

class DisjointSets {
 public:
  explicit DisjointSets(std::size_t n) : parent_(n) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int root(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(int a, int b) { parent_[root(b)] = root(a); }

 private:
  std::vector<int> parent_;
};

}  // namespace harpe::plan
