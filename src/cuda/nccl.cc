// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl.h"

#include <dlfcn.h>
#include <string>

namespace octet::cuda {
namespace {

template <class Fn>
Status find(void* library, const char* name, Fn& fn) {
  fn = reinterpret_cast<Fn>(dlsym(library, name));
  return fn != nullptr ? Status{} : unsupported(std::string("libnccl.so.2 has no ") + name);
}

Result<Nccl> load() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return unsupported(std::string("no NCCL to reduce over ranks with: ") + dlerror());
  Nccl n{};
  OCTET_RETURN_IF_ERROR(find(library, "ncclAllGather", n.all_gather));
  OCTET_RETURN_IF_ERROR(find(library, "ncclCommCount", n.comm_count));
  OCTET_RETURN_IF_ERROR(find(library, "ncclCommUserRank", n.comm_rank));
  OCTET_RETURN_IF_ERROR(find(library, "ncclGetErrorString", n.error_string));
  return n;
}

}  // namespace

Status Nccl::status(const char* call, int result) const {
  if (result == kSuccess) return {};
  return {Code::kDeviceError, std::string(call) + ": " + error_string(result)};
}

Result<const Nccl*> nccl() {
  static const Result<Nccl> loaded = load();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace octet::cuda
