// SPDX-License-Identifier: Apache-2.0
// The file that a verb writes: after a failure none of that name is left, so that an older one is never taken for the result.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>

#include "octet/status.hpp"

namespace octet::tools {

// work(); if it fails or throws, or its report does not reach stdout, removes a regular file at `output`. A command that was
// misused did not begin: then the file stays; so it is where `output` is one of `inputs`, or in one that is a folder.
constexpr const char* kOutputHelp =
    "safetensors file to write; after exit status 1 there is none of that name";
Status write_output(const std::filesystem::path& output,
                    std::initializer_list<std::filesystem::path> inputs,
                    const std::function<Status()>& work);

// What a failing work() would remove; for a process that ends otherwise.
void remove_older_output() noexcept;

}  // namespace octet::tools
