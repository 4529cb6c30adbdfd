// SPDX-License-Identifier: Apache-2.0
// What a path holds when it is nothing that is read here: no file at all, or a format that others write, by its name.
#pragma once

#include <filesystem>

#include "octet/status.hpp"

namespace octet::checkpoint {

// kIo: there is no such file or folder. kUnsupported: the format's name and those that are built. Ok says nothing of the
// contents beyond their first bytes.
Status check_is_readable_format(const std::filesystem::path& path);

}  // namespace octet::checkpoint
