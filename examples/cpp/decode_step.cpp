// SPDX-License-Identifier: Apache-2.0
// One decode step in C++: a checkpoint's first MoE layer, 6 rows, on the library's threads.
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "octet/octet.hpp"

namespace oct = octet::api;

// The value, or the reason on stderr and the end.
template <class T>
T want(octet::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().why.c_str());
  std::exit(1);
}

float to_float(octet_bf16 bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: decode_step CHECKPOINT\n"), 2;
  constexpr int64_t kRows = 6;
  const oct::Pool pool = want(oct::Pool::create());
  const oct::Model model = want(oct::Model::open(argv[1]));
  const oct::Layer layer =
      want(model.load(model.layers().at(0), oct::LoadOptions(), pool.executor()));
  std::printf("%s", layer.explain().c_str());  // which kernel, and why not each of the others

  // Once, for the most rows that a step may have: calls allocate nothing.
  oct::Workspace workspace(want(layer.workspace_bytes(kRows, pool.num_threads())));
  const size_t hidden = static_cast<size_t>(layer.info().hidden);
  std::vector<octet_bf16> x(kRows * hidden), y(kRows * hidden);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 != 0 ? 0x3F80 : 0xBF00;  // 1, -0.5

  const std::vector<int32_t> token_ids = {11, 12, 13, 14, 15, 16};  // some routers look at them
  oct::Call call;  // without ids or logits the checkpoint's gate routes the rows
  call.tokens = kRows;
  call.x = x.data();
  call.input_ids = token_ids.data();
  call.y = y.data();
  if (const octet::Status s = layer.run(call, workspace, pool.executor()); !s.ok()) {
    return std::fprintf(stderr, "%s\n", s.why.c_str()), 1;
  }
  for (size_t t = 0; t < kRows; ++t) {
    const octet_bf16* row = &y[t * hidden];
    std::printf("row %zu: %g %g %g ...\n", t, to_float(row[0]), to_float(row[1]), to_float(row[2]));
  }
  return 0;
}
