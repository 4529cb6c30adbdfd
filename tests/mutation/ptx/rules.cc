// SPDX-License-Identifier: Apache-2.0
#include "rules.h"

#include <utility>

namespace octet::mutation {
namespace {

constexpr Alter removed{"removed", Action::kRemove};
constexpr Alter relaxed{"relaxed", Action::kRelax};

// A descriptor's fields, each changed to another value.
void add_fields(std::vector<Alter>& to, At at, int bits,
                const std::vector<std::pair<std::string_view, uint64_t>>& fields) {
  for (const auto& [name, mask] : fields) to.push_back({name, Action::kXor, at, mask, bits});
}

// PTX ISA 9.7.16.4.1, table 40: the shared-memory descriptor of tcgen05.
std::vector<Alter> cp_alters() {
  std::vector<Alter> all = {removed, {"target +4 columns", Action::kAdd, address(0, 0), 4}};
  add_fields(all, value(0), 64,
             {{"start +16", uint64_t{1}},
              {"leading distance", uint64_t{1} << 16},
              {"stride", uint64_t{0x18} << 32},
              {"version", uint64_t{2} << 46},
              {"base offset", uint64_t{1} << 49},
              {"swizzle", uint64_t{2} << 61}});
  return all;
}
// 9.7.16.4.2, table 43: the instruction descriptor of kind::mxf8f6f4. A field's next value that means something else.
std::vector<Alter> tcgen05_mma_alters() {
  std::vector<Alter> all = {removed,
                            {"d +8 columns", Action::kAdd, address(0, 0), 8},
                            {"a's scales +4 columns", Action::kAdd, address(1, 0), 4},
                            {"b's scales +4 columns", Action::kAdd, address(2, 0), 4},
                            {"always adds", Action::kTrue, last()},
                            {"never adds", Action::kFalse, last()}};
  add_fields(all, value(0), 64,
             {{"a start", uint64_t{2}},
              {"a leading distance", uint64_t{1} << 16},
              {"a stride", uint64_t{0x60} << 32},
              {"a version", uint64_t{2} << 46},
              {"a base offset", uint64_t{1} << 49},
              {"a swizzle", uint64_t{6} << 61}});
  add_fields(all, value(1), 64,
             {{"b start", uint64_t{2}},
              {"b leading distance", uint64_t{1} << 16},
              {"b stride", uint64_t{0x60} << 32},
              {"b version", uint64_t{2} << 46},
              {"b base offset", uint64_t{1} << 49},
              {"b swizzle", uint64_t{6} << 61}});
  add_fields(all, value(2), 32,
             {{"b scale id", 1U << 4},
              {"a format", 1U << 7},
              {"b format", 1U << 10},
              {"a negated", 1U << 13},
              {"b negated", 1U << 14},
              {"a transposed", 1U << 15},
              {"b transposed", 1U << 16},
              {"n", 3U << 17},
              {"scale type", 1U << 23},
              {"m", 3U << 27},
              {"a scale id", 1U << 29}});
  return all;
}
// 9.7.15.5.1.2: the shared-memory descriptor of wgmma; operands d, a, b, scale-d, imm-scale-a, imm-scale-b.
std::vector<Alter> wgmma_alters() {
  std::vector<Alter> all = {
      removed, {"always adds", Action::kTrue, value(3)}, {"never adds", Action::kFalse, value(3)}};
  for (const size_t i : {size_t{1}, size_t{2}}) {
    add_fields(all, value(i), 64,
               {{i == 1 ? "a start" : "b start", uint64_t{2}},
                {i == 1 ? "a leading distance" : "b leading distance", uint64_t{1} << 16},
                {i == 1 ? "a stride" : "b stride", uint64_t{1} << 32},
                {i == 1 ? "a base offset" : "b base offset", uint64_t{1} << 49},
                {i == 1 ? "a swizzle" : "b swizzle", uint64_t{3} << 62}});
  }
  return all;
}
// 9.7.14.5: d, a, b, c, then with block scales: a's, {byte, thread}, b's, {byte, thread}.
std::vector<Alter> mma_alters() {
  return {removed,
          {"a's byte of scales", Action::kXor, value(5, 0), 1},
          {"a's thread of scales", Action::kXor, value(5, 1), 1},
          {"b's byte of scales", Action::kXor, value(7, 0), 1},
          {"b's thread of scales", Action::kXor, value(7, 1), 1}};
}

}  // namespace

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"mbarrier.init",
       "init",
       {removed,
        {"count +1", Action::kAdd, last(), 1},
        {"count -1", Action::kAdd, last(), ~uint64_t{0}}}},
      {"mbarrier.try_wait",
       "wait",
       {{"passes at once", Action::kPass}, {"parity", Action::kXor, value(1), 1}, relaxed}},
      {"mbarrier.test_wait",
       "wait",
       {{"passes at once", Action::kPass}, {"parity", Action::kXor, value(1), 1}, relaxed}},
      {"mbarrier.arrive",
       "arrive",
       {removed, {"next barrier", Action::kOffset, address(0), 8}, relaxed}},
      {"mbarrier.arrive.expect_tx",
       "arrive",
       {removed,
        {"bytes +16", Action::kAdd, last(), 16},
        {"bytes -16", Action::kAdd, last(), ~uint64_t{15}},
        {"next barrier", Action::kOffset, address(0), 8},
        relaxed}},
      {"mbarrier.expect_tx", "arrive", {removed, {"bytes +16", Action::kAdd, last(), 16}}},
      {"fence", "fence", {removed}},
      {"membar", "fence", {removed}},
      {"fence.proxy.async", "proxy fence", {removed}},
      {"fence.mbarrier_init", "fence", {removed}},
      {"tcgen05.fence::before_thread_sync", "fence", {removed}},
      {"tcgen05.fence::after_thread_sync", "fence", {removed}},
      {"tcgen05.wait::ld", "wait", {removed}},
      {"tcgen05.wait::st", "wait", {removed}},
      {"tcgen05.commit", "commit", {removed, {"next barrier", Action::kOffset, address(0), 8}}},
      {"tcgen05.alloc",
       "tensor memory",
       {removed, {"half the columns", Action::kXor, last(), 192}}},
      {"tcgen05.dealloc",
       "tensor memory",
       {removed, {"half the columns", Action::kXor, last(), 192}}},
      {"tcgen05.relinquish_alloc_permit", "tensor memory", {removed}},
      {"tcgen05.ld",
       "tensor memory",
       {removed,
        {"+8 columns", Action::kAdd, address(0, 0), 8},
        {"+16 lanes", Action::kXor, address(0, 0), 16 << 16}}},
      {"tcgen05.st", "tensor memory", {removed, {"+8 columns", Action::kAdd, address(0, 0), 8}}},
      {"tcgen05.cp", "product", cp_alters()},
      {"tcgen05.mma", "product", tcgen05_mma_alters()},
      {"wgmma.mma_async", "product", wgmma_alters()},
      {"mma", "product", mma_alters()},
      {"wgmma.fence", "fence", {removed}},
      {"wgmma.commit_group", "commit", {removed}},
      {"wgmma.wait_group", "wait", {removed, {"one more", Action::kAdd, last(), 1}}},
      {"cp.async", "copy", {removed, {"source +16", Action::kOffset, address(1), 16}}},
      {"cp.async.commit_group", "commit", {removed}},
      {"cp.async.wait_group", "wait", {removed, {"one more", Action::kAdd, last(), 1}}},
      {"cp.async.wait_all", "wait", {removed}},
      {"cp.async.mbarrier.arrive", "arrive", {removed}},
      {"cp.async.bulk",
       "copy",
       {removed,
        {"source +16", Action::kOffset, address(1), 16},
        {"target +16", Action::kOffset, address(0), 16},
        {"bytes -16", Action::kAdd, value(0), ~uint64_t{15}},
        {"next barrier", Action::kOffset, address(2), 8}}},
      {"cp.async.bulk.tensor",
       "copy",
       {removed,
        {"x +128", Action::kAdd, address(1, 1, 0), 128},
        {"y +1", Action::kAdd, address(1, 1, 1), 1},
        {"target +128", Action::kOffset, address(0), 128},
        {"next barrier", Action::kOffset, address(2), 8}}},
      {"cp.async.bulk.commit_group", "commit", {removed}},
      {"cp.async.bulk.wait_group", "wait", {removed, {"one more", Action::kAdd, last(), 1}}},
      {"bar.sync",
       "barrier",
       {removed,
        {"other number", Action::kXor, value(0), 1},
        {"32 fewer", Action::kAdd, value(1), ~uint64_t{31}}}},
      {"barrier.sync",
       "barrier",
       {removed,
        {"other number", Action::kXor, value(0), 1},
        {"32 fewer", Action::kAdd, value(1), ~uint64_t{31}}}},
      {"bar.arrive", "barrier", {removed, {"other number", Action::kXor, value(0), 1}}},
      {"barrier.arrive", "barrier", {removed, {"other number", Action::kXor, value(0), 1}}},
      {"bar.red", "barrier", {removed}},
      {"bar.warp.sync", "warp barrier", {removed}},
      {"griddepcontrol.wait", "grid", {removed}},
      {"griddepcontrol.launch_dependents", "grid", {removed}},
      {"elect.sync", "elect", {{"every lane", Action::kAll}, {"the other lanes", Action::kOthers}}},
      {"atom", "atomic", {removed, relaxed}},
      {"red", "atomic", {removed, relaxed}},
      {"st.release", "signal", {removed, relaxed}},
      {"st.relaxed", "signal", {removed}},
      {"st.volatile", "signal", {removed}},
      {"ld.acquire", "signal", {relaxed}},
  };
  return all;
}

}  // namespace octet::mutation
