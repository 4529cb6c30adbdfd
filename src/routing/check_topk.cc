// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "routing/topk.h"

namespace octet::routing {
namespace {

bool has_butterfly(RouterKind kind) {
  return kind == RouterKind::kDsv4 || kind == RouterKind::kHash;
}

Status check_sizes(const TopkArgs& a) {
  const RouterSpec& r = a.router;
  const int64_t most = has_butterfly(r.kind) ? kMaxTopKDsv4 : kMaxTopK;
  if (r.top_k < 1 || r.top_k > std::min(most, a.experts)) {
    return invalid_argument(
        fmt::format("top_k {}, want 1..{} and at most {} experts", r.top_k, most, a.experts));
  }
  if (r.kind == RouterKind::kDsv4 && a.experts > kMaxExpertsDsv4) {
    return invalid_argument(
        fmt::format("logits: {} experts, want at most {} for dsv4", a.experts, kMaxExpertsDsv4));
  }
  return {};
}

// Only deepseek_v3 has groups.
Status check_groups(const TopkArgs& a) {
  const RouterSpec& r = a.router;
  if (r.groups < 1 || r.groups > kMaxGroups || a.experts % r.groups != 0) {
    return invalid_argument(fmt::format("groups {}, want a divisor of {} experts, 1..{}", r.groups,
                                        a.experts, kMaxGroups));
  }
  if (r.groups_kept < 1 || r.groups_kept > r.groups) {
    return invalid_argument(fmt::format("groups_kept {}, want 1..{}", r.groups_kept, r.groups));
  }
  const int64_t held = r.groups_kept * (a.experts / r.groups);
  if (held < r.top_k) {
    return invalid_argument(fmt::format("groups_kept {} holds {} experts, want at least top_k {}",
                                        r.groups_kept, held, r.top_k));
  }
  return {};
}

Status check_tensors(const TopkArgs& a) {
  const RouterKind kind = a.router.kind;
  const bool needs_bias = kind == RouterKind::kDsv4 || kind == RouterKind::kDeepseekV3;
  const bool images = has_butterfly(kind) && a.bias_vl != nullptr;
  if (needs_bias && a.bias == nullptr)
    return invalid_argument(
        fmt::format("bias: missing, want F32 [{}] for {}", a.experts, name_of(kind)));
  if (kind == RouterKind::kHash && a.table == nullptr)
    return invalid_argument(
        fmt::format("table: missing, want I32 [vocab, {}] for hash", a.router.top_k));
  if ((images || kind == RouterKind::kHash) && a.tokens > 0 && a.input_ids.data == nullptr) {
    return invalid_argument(fmt::format(
        "input_ids: missing, want [{}] with {}", a.tokens,
        images ? "bias_vl (image_sentinel_lo 0: no row is an image)" : "a table of ids"));
  }
  return {};
}

// The table's rows that this call reads.
Status check_table(const TopkArgs& a) {
  const int64_t k = a.router.top_k;
  for (int64_t t = 0; t < a.tokens; ++t) {
    if (is_image(a, t)) continue;
    const int64_t id = a.input_ids[t];
    if (id < 0 || id >= a.vocab) {
      return invalid_argument(
          fmt::format("input_ids: row {} is {}, want 0..{}", t, id, a.vocab - 1));
    }
    for (int64_t j = 0; j < k; ++j) {
      const int64_t expert = a.table[id * k + j];
      if (expert >= 0 && expert < a.experts) continue;
      return invalid_argument(
          fmt::format("table: [{}, {}] is {}, want 0..{}", id, j, expert, a.experts - 1));
    }
  }
  return {};
}

}  // namespace

Status check_topk(const TopkArgs& a) {
  OCTET_RETURN_IF_ERROR(check_sizes(a));
  if (a.router.kind == RouterKind::kDeepseekV3) OCTET_RETURN_IF_ERROR(check_groups(a));
  OCTET_RETURN_IF_ERROR(check_tensors(a));
  return a.router.kind == RouterKind::kHash ? check_table(a) : Status{};
}

}  // namespace octet::routing
