// SPDX-License-Identifier: Apache-2.0
// The nearest right name to a mistyped one.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

// Edits (insert, delete, replace) from a to b.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

// The nearest of `names` if it is near enough to be meant: at most a third of the word, or two letters, wrong.
inline std::optional<std::string_view> nearest(std::string_view word,
                                               std::span<const std::string_view> names) {
  std::optional<std::string_view> best;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string_view name : names) {
    const size_t d = edit_distance(word, name);
    if (d < least) {
      least = d;
      best = name;
    }
  }
  return best;
}

// ", did you mean route?" or nothing.
inline std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  const auto best = nearest(word, names);
  return best ? ", did you mean " + std::string(*best) + "?" : std::string();
}

}  // namespace octet
