// SPDX-License-Identifier: Apache-2.0
// validate() for a packed file: its checksums, then the scales where they lie in panels. Rows are the layer's own, columns
// count scale blocks from the first one of the rank's part.
#pragma once

#include <filesystem>

#include "checkpoint/tensor_store.h"
#include "checkpoint/validate.h"
#include "core/progress.h"

namespace octet::checkpoint {

bool is_packed(const TensorStore& store);
void validate_packed(const std::filesystem::path& path, const TensorStore& store,
                     const Progress& progress, ValidateReport& report);

}  // namespace octet::checkpoint
