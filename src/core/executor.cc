// SPDX-License-Identifier: Apache-2.0
#include "core/executor.h"

namespace octet {

void InlineExecutor::run(int num_tasks, void (*task)(void* arg, int index), void* arg) {
  for (int i = 0; i < num_tasks; ++i) task(arg, i);
}

}  // namespace octet
