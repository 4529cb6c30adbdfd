// SPDX-License-Identifier: Apache-2.0
#include "capi/convert.h"

#include <gtest/gtest.h>
#include <new>

namespace octet::capi {
namespace {

// Like C code, it could not let an exception through.
void run_noexcept(void* context, int num_tasks, void (*task)(void*, int), void* arg) noexcept {
  for (int i = 0; i < num_tasks; ++i) task(arg, i);
  *static_cast<int*>(context) += num_tasks;
}

TEST(CallbackExecutor, CarriesAnExceptionAroundTheCallersCode) {
  int num_run = 0;
  const octet_executor callers{&num_run, 2, run_noexcept};
  CallbackExecutor executor(&callers);
  EXPECT_THROW(
      executor.run(
          5, [](void*, int index) { index == 3 ? throw std::bad_alloc() : void(); }, nullptr),
      std::bad_alloc);
  EXPECT_EQ(num_run, 5);
}

TEST(CallbackExecutor, IsTheCallingThreadForNull) {
  CallbackExecutor executor(nullptr);
  EXPECT_EQ(executor.num_threads(), 1);
  int sum = 0;
  executor.run(
      4, [](void* arg, int index) { *static_cast<int*>(arg) += index; }, &sum);
  EXPECT_EQ(sum, 6);
}

}  // namespace
}  // namespace octet::capi
