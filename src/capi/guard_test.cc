// SPDX-License-Identifier: Apache-2.0
#include "capi/guard.h"

#include <gtest/gtest.h>
#include <new>
#include <stdexcept>
#include <string>

namespace octet::capi {
namespace {

static_assert(static_cast<int>(Code::kOk) == OCTET_OK &&
              static_cast<int>(Code::kInvalidArgument) == OCTET_INVALID_ARGUMENT &&
              static_cast<int>(Code::kUnsupported) == OCTET_UNSUPPORTED &&
              static_cast<int>(Code::kMisuse) == OCTET_MISUSE &&
              static_cast<int>(Code::kIo) == OCTET_IO &&
              static_cast<int>(Code::kDeviceError) == OCTET_DEVICE_ERROR &&
              static_cast<int>(Code::kInternal) == OCTET_INTERNAL &&
              static_cast<int>(Code::kOutOfMemory) == OCTET_OUT_OF_MEMORY);

TEST(Guard, LetsNoExceptionOut) {
  EXPECT_EQ(guarded([]() -> Status { throw std::bad_alloc(); }), OCTET_OUT_OF_MEMORY);
  EXPECT_STREQ(last_error(), "out of memory");
  EXPECT_EQ(guarded([]() -> Status { throw std::runtime_error("a reason"); }), OCTET_INTERNAL);
  EXPECT_STREQ(last_error(), "a reason");
  EXPECT_EQ(guarded([]() -> Status { throw 7; }), OCTET_INTERNAL);
}

TEST(Guard, GivesCodeAndSentence) {
  EXPECT_EQ(guarded([] { return Status{Code::kDeviceError, "lost"}; }), OCTET_DEVICE_ERROR);
  EXPECT_STREQ(last_error(), "lost");
  EXPECT_EQ(guarded([] { return Status{}; }), OCTET_OK);
  EXPECT_STREQ(last_error(), "lost");
}

struct First {
  size_t struct_size;
  int32_t a, b;
};

TEST(ReadStruct, FillsAnOlderCallersStructWithZero) {
  const First given{sizeof(size_t) + 4, 1, 2};
  const Result<First> known = read_struct(&given, sizeof(size_t) + 4, "given");
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->a, 1);
  EXPECT_EQ(known->b, 0);
  const Result<First> too_old = read_struct(&given, sizeof(First), "given");
  ASSERT_FALSE(too_old.ok());
  EXPECT_EQ(too_old.status().why, "given.struct_size 12, want at least 16");
}

}  // namespace
}  // namespace octet::capi
