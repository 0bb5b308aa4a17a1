#pragma once
/// \file
/// Disjoint sets of numbers that are joined (union-find).

#include <numeric>
#include <vector>

namespace harpe {

class DisjointSets {
 public:
  explicit DisjointSets(std::size_t n) : parent_(n), size_(n, 1) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int root(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  int size(int i) { return size_[root(i)]; }
  void join(int a, int b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    parent_[b] = a;
    size_[a] += size_[b];
  }

 private:
  std::vector<int> parent_, size_;
};

}  // namespace harpe
