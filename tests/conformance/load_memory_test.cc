// SPDX-License-Identifier: Apache-2.0
// Loading takes at most 1.05 times the weights, the file's own pages included; of a slice, 1.05 times the scale blocks
// that it touches.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <unistd.h>

#include "checkpoint/model.h"
#include "checkpoint/synth.h"
#include "cpu/thread_pool.h"
#include "dispatch/layer.h"

#if defined(__SANITIZE_ADDRESS__)
#define OCTET_MEMORY_IS_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OCTET_MEMORY_IS_INSTRUMENTED 1
#endif
#endif

namespace octet {
namespace {

// A line of /proc/self/status, in bytes.
int64_t process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::atoll(line.c_str() + key.size() + 1) * 1024;
  }
  return -1;
}

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "octet_load_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Scale blocks that the local experts touch, each whole with its scale: what streaming them must hold.
int64_t block_bytes(const checkpoint::LayerTensors& tensors) {
  int64_t bytes = 0;
  for (const layouts::ExpertWeights& e : tensors.experts) {
    for (const layouts::WeightView* m : {&e.gate, &e.up, &e.down}) {
      bytes += m->rows * m->num_blocks() * (m->block() / 2 + 1);
    }
  }
  return bytes;
}

void expect_load_within(const checkpoint::Shard& shard, int64_t intermediate = 1024) {
  constexpr int64_t kOverhead = int64_t{3}
                                << 20;  // heap of the loader, stacks, page tables' rounding
  mallopt(M_MMAP_THRESHOLD, 1 << 20);   // what an earlier test freed is not there to be used again
  ScratchFolder folder;
  ASSERT_TRUE(checkpoint::synth({.preset = "deepseek-v4.1-flash",
                                 .output = folder.path(),
                                 .layers = 1,
                                 .experts = 32,
                                 .hidden = 2048,
                                 .intermediate = intermediate})
                  .ok());
  auto model = checkpoint::Model::open(folder.path());
  ASSERT_TRUE(model.ok()) << model.status().why;
  auto tensors = model->layer(model->layers()[0], {.shard = shard});
  ASSERT_TRUE(tensors.ok()) << tensors.status().why;
  cpu::ThreadPool pool(2);

  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // VmHWM begins again
  const int64_t before = process_memory("VmRSS");
  if (process_memory("VmHWM") > before + kOverhead) GTEST_SKIP() << "VmHWM cannot be reset here";
  auto layer = dispatch::Layer::load(*tensors, {}, pool);
  ASSERT_TRUE(layer.ok()) << layer.status().why;
  const int64_t peak = process_memory("VmHWM") - before;

  const int64_t weights = block_bytes(*tensors);
  EXPECT_GE(weights, 8 << 20);
  EXPECT_GE(peak, weights) << "the weights were not copied: the test measures nothing";
  EXPECT_LE(static_cast<double>(peak), 1.05 * static_cast<double>(weights) + kOverhead);
  EXPECT_LE(static_cast<double>(layer->resident_bytes()), 1.05 * static_cast<double>(weights));
}

TEST(LoadMemory, IsAtMostOneAndATwentiethOfTheWeights) {
#ifdef OCTET_MEMORY_IS_INSTRUMENTED
  GTEST_SKIP() << "AddressSanitizer has memory of its own";
#endif
  expect_load_within({});
}

TEST(LoadMemory, IsAtMostOneAndATwentiethOfASlicesWeightsAndTheFilesPagesAreGivenBack) {
#ifdef OCTET_MEMORY_IS_INSTRUMENTED
  GTEST_SKIP() << "AddressSanitizer has memory of its own";
#endif
  expect_load_within({.tp_rank = 1, .tp_ranks = 4});
}

TEST(LoadMemory, OfASliceThatCutsScaleBlocksIsAtMostOneAndATwentiethOfTheBlocksItTouches) {
#ifdef OCTET_MEMORY_IS_INSTRUMENTED
  GTEST_SKIP() << "AddressSanitizer has memory of its own";
#endif
  // 640 over 8 ranks: 80 columns are two and a half blocks, and rank 3 begins in the middle of one.
  expect_load_within({.tp_rank = 3, .tp_ranks = 8}, 640);
}

}  // namespace
}  // namespace octet
