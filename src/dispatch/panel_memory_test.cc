// SPDX-License-Identifier: Apache-2.0
#include "dispatch/panel_memory.h"

#include <cstddef>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/executor.h"
#include "cpu/test_layer.h"
#include "cpu/thread_pool.h"
#include "dispatch/layer_data.h"
#include "layouts/panel.h"

namespace octet::dispatch {
namespace {

constexpr int64_t kBytes = (int64_t{16} << 20) + 100;

// What /proc/self/smaps says under `key` of the mapping that `p` lies in.
std::string smaps(const void* p, const std::string& key) {
  std::ifstream file("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(p);
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    uintptr_t first = 0;
    uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> first >> dash >> end && dash == '-') {
      inside = first <= address && address < end;
    } else if (inside && line.starts_with(key + ":")) {
      return line.substr(key.size() + 1);
    }
  }
  return "";
}

bool has_huge_pages() {
  std::string text;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), text);
  return !text.empty() && text.find("[never]") == std::string::npos;
}

// The policy of the memory that `p` lies in; below 0 where the system does not tell.
int policy_of(const void* p) {
  int mode = -1;
  if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, p, MPOL_F_ADDR) != 0) return -1;
  return mode;
}

TEST(PanelMemory, HasHugePagesUnlessSmallOnesAreAskedFor) {
  if (!has_huge_pages()) GTEST_SKIP() << "transparent_hugepage is never or not there";
  for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
    auto memory = PanelMemory::allocate(kBytes, {.pages = pages});
    ASSERT_TRUE(memory.ok()) << memory.status().why;
    std::memset(memory->data(), 1, static_cast<size_t>(kBytes));
    const int64_t kilobytes = std::atoll(smaps(memory->data(), "AnonHugePages").c_str());
    if (pages == Pages::kHuge) {
      EXPECT_GT(kilobytes, 0) << smaps(memory->data(), "VmFlags");
    } else {
      EXPECT_EQ(kilobytes, 0);
      // Also where the system gives huge pages to who does not ask.
      EXPECT_NE(smaps(memory->data(), "VmFlags").find(" nh"), std::string::npos);
    }
    EXPECT_GE(memory->resident_bytes(), kBytes);
    EXPECT_LT(memory->resident_bytes(), kBytes + ::sysconf(_SC_PAGESIZE));
  }
}

TEST(PanelMemory, IsAlignedAndTouchesNothingAhead) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, kBytes}) {
    for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
      auto memory = PanelMemory::allocate(bytes, {.pages = pages});
      ASSERT_TRUE(memory.ok()) << memory.status().why;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % layouts::kPanelAlignment, 0U);
      EXPECT_GE(memory->resident_bytes(), bytes);
      if (bytes < kBytes) continue;
      const std::string resident = smaps(memory->data(), "Anonymous");
      EXPECT_LT(std::atoll(resident.c_str()), bytes / 1024) << resident;
    }
  }
}

TEST(PanelMemory, InterleavesOrSaysThatTheSystemRefuses) {
  auto memory = PanelMemory::allocate(100, {.numa = Numa::kInterleave});
  auto plain = PanelMemory::allocate(kBytes, {});
  ASSERT_TRUE(plain.ok());
  if (policy_of(plain->data()) < 0) {
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.status().code, Code::kIo);
    GTEST_SKIP() << "the system has no NUMA policies for this process: " << memory.status().why;
  }
  ASSERT_TRUE(memory.ok()) << memory.status().why;
  EXPECT_EQ(policy_of(memory->data()), MPOL_INTERLEAVE);
  EXPECT_EQ(policy_of(plain->data()), MPOL_DEFAULT);
}

// Containers forbid the call so.
bool forbid_mbind() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(PanelMemory, ARefusalNamesTheSystemsReason) {
  const auto refused = [] {
    if (!forbid_mbind()) std::exit(3);
    const Status s = PanelMemory::allocate(100, {.numa = Numa::kInterleave}).status();
    std::fputs(s.why.c_str(), stderr);
    std::exit(s.code == Code::kIo ? 0 : 1);
  };
  EXPECT_EXIT(refused(), testing::ExitedWithCode(0),
              "numa: found interleave, which the system refuses .* want first-touch");
}

// A layer's panels for `options`, from the checkpoint's order or from a packed file with gaps between its experts.
class Panels : public testing::TestWithParam<bool> {
 protected:
  Panels() : made_({.hidden = 128, .intermediate = 80, .experts = 5, .biases = true}) {
    tensors_ = {.spec = made_.spec(), .experts = made_.experts};
    sizes_ = layouts::panel_sizes(made_.experts[0]);
    const int64_t stride = sizes_.expert_bytes() + layouts::kPanelAlignment;
    file_ = Tensor(Dtype::kU8, {stride * 5});
    for (int64_t e = 0; e < 5; ++e) {
      layouts::pack_expert(made_.experts[static_cast<size_t>(e)], file_.as<uint8_t>() + e * stride);
    }
    if (GetParam()) tensors_.packed = checkpoint::PackedPanels{file_.as<uint8_t>(), stride, sizes_};
  }
  Status load(const MemoryOptions& memory, LayerData& layer) const {
    layer.spec = tensors_.spec;
    cpu::ThreadPool pool(3);
    return load_panels(tensors_, memory, pool, {}, layer);
  }

  cpu::TestLayer made_;
  checkpoint::LayerTensors tensors_;
  layouts::PanelSizes sizes_;
  Tensor file_;
};
INSTANTIATE_TEST_SUITE_P(All, Panels, testing::Bool(),
                         [](const auto& p) { return p.param ? "Packed" : "Checkpoint"; });

TEST_P(Panels, AreTheSameBytesForEveryOption) {
  std::vector<uint8_t> want(static_cast<size_t>(sizes_.expert_bytes()));
  for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
    for (const Numa numa : {Numa::kFirstTouch, Numa::kInterleave}) {
      LayerData layer;
      const Status s = load({pages, numa, PackedUse::kCopy}, layer);
      if (numa == Numa::kInterleave && s.code == Code::kIo) continue;  // tested above
      ASSERT_TRUE(s.ok()) << s.why;
      EXPECT_GE(layer.resident_bytes, 5 * sizes_.expert_bytes());
      EXPECT_EQ(policy_of(layer.panels.data()) == MPOL_INTERLEAVE, numa == Numa::kInterleave);
      for (int64_t e = 0; e < 5; ++e) {
        layouts::pack_expert(made_.experts[static_cast<size_t>(e)], want.data());
        EXPECT_EQ(std::memcmp(layer.source->gate_up_panel(e, 0, nullptr), want.data(), want.size()),
                  0)
            << e << " " << name_of(pages) << " " << name_of(numa);
      }
    }
  }
}

TEST_P(Panels, OfAMappedFileTakeNoMemoryOptions) {
  LayerData mapped;
  ASSERT_TRUE(load({}, mapped).ok());
  EXPECT_EQ(mapped.panels.data() == nullptr, GetParam());
  EXPECT_EQ(mapped.source->gate_up_panel(0, 0, nullptr) == file_.as<uint8_t>(), GetParam());
  LayerData layer;
  const Status small = load({.pages = Pages::kSmall}, layer);
  const Status spread = load({.numa = Numa::kInterleave}, layer);
  if (!GetParam()) {
    EXPECT_TRUE(small.ok()) << small.why;
    return;
  }
  EXPECT_EQ(small.why,
            "pages: found small, want huge: a mapped packed file has no memory of its own");
  EXPECT_EQ(spread.why,
            "numa: found interleave, want first-touch: a mapped packed file has no memory of its "
            "own");
  EXPECT_EQ(spread.code, Code::kInvalidArgument);
}

TEST(PanelMemory, OfTheReferenceTakesNoOptions) {
  const cpu::TestLayer made({.hidden = 64, .intermediate = 32, .experts = 2});
  const checkpoint::LayerTensors tensors{.spec = made.spec(), .experts = made.experts};
  InlineExecutor one;
  const LayerOptions options{.backend = Backend::kReference, .memory = {.pages = Pages::kSmall}};
  const Status s = Layer::load(tensors, options, one).status();
  EXPECT_EQ(s.code, Code::kInvalidArgument);
  EXPECT_NE(s.why.find("_reference has no memory of its own"), std::string::npos) << s.why;
}

}  // namespace
}  // namespace octet::dispatch
