// SPDX-License-Identifier: Apache-2.0
// The file that a verb writes: after a failure no result of that name is left, so that an older one is never taken for the new one. What
// this program did not write stays, whatever its name.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>

#include "core/tensor.h"
#include "octet/status.hpp"

namespace octet::tools {

constexpr const char* kOutputHelp =
    "safetensors file to write; after exit status 1 no older result of that name is left";

// Saves a result of this program.
Status save_result(const std::filesystem::path& output, const NamedViews& tensors);

// work(); if it fails or throws, or its report does not reach stdout, removes a result (save_result(), or a packed file) at `output`. A
// command that was misused did not begin: then it stays; so it does where `output` is one of `inputs`, or in one that is a folder.
Status write_output(const std::filesystem::path& output,
                    std::initializer_list<std::filesystem::path> inputs,
                    const std::function<Status()>& work);

// What a failing work() would remove; for a process that ends otherwise.
void remove_older_output() noexcept;

}  // namespace octet::tools
