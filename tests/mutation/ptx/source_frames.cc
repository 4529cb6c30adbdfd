// SPDX-License-Identifier: Apache-2.0
#include "source_frames.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace octet::mutation {
namespace {

using namespace ptxsim::text;  // NOLINT(google-build-using-namespace): the tree

// Headers whose functions are one instruction, or nearly: what counts is who calls them.
constexpr const char* kWrappers[] = {"/include/",
                                     "/ptx/",
                                     "/cuda/launch.h",
                                     "/cuda/mbarrier.cuh",
                                     "/cuda/async_copy.cuh",
                                     "/cuda/warp.cuh",
                                     "/sm90/copy_as_it_comes.cuh"};

bool is_wrapper(const std::string& path) {
  return std::any_of(std::begin(kWrappers), std::end(kWrappers),
                     [&](const char* part) { return path.find(part) != std::string::npos; });
}

void remove_all(std::string& text, const std::string& what) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what))
    text.erase(at, what.size());
}

std::string without_template_arguments(const std::string& text) {
  std::string out;
  int depth = 0;
  for (const char c : text) {
    depth += c == '<' ? 1 : 0;
    if (depth == 0) out += c;
    depth -= c == '>' ? 1 : 0;
  }
  return out;
}

// "load_weights" of "_ZN5octet5sm10012load_weightsINS0_11Gemm1TraitsEEEvRK...", or, for a kernel, "experts_kernel<8, true>".
std::string short_name(const std::string& mangled, bool with_arguments = false) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (whole == nullptr) return mangled;
  std::string name = whole.get();
  remove_all(name, "(anonymous namespace)::");
  remove_all(name, "operator()");
  const std::string plain = without_template_arguments(name);
  const std::string front = plain.substr(0, plain.find('('));
  const std::string last = front.substr(front.find_last_of(" :") + 1);
  if (!with_arguments) return last;
  const size_t at = name.find(last + "<"), end = name.find(">(");
  return at == std::string::npos || end == std::string::npos ? last : name.substr(at, end + 1 - at);
}

}  // namespace

SourceFrames::SourceFrames(const Module& module) {
  for (const auto& item : module.items) {
    if (const auto* file = std::get_if<File>(&item)) files_[file->index] = file->path;
    const auto* section = std::get_if<Section>(&item);
    if (section == nullptr || section->name != ".debug_str") continue;
    std::string label, text;
    for (const SectionLine& line : section->lines) {
      if (!line.label.empty()) {
        label = line.label;
        text.clear();
      }
      for (const SectionValue& value : line.values) text += static_cast<char>(value.number.bits);
      if (!label.empty()) functions_[label] = text.c_str();  // up to its zero
    }
  }
  for (auto& [label, name] : functions_) name = short_name(name);
}

void SourceFrames::begin(const std::string& kernel) {
  kernel_ = short_name(kernel, true);
  seen_.clear();
}

void SourceFrames::see(const Location& location) {
  if (location.at.line != 0) seen_.push_back(location);  // 0: nobody's
}

Frame SourceFrames::current() const {
  if (seen_.empty()) return {kernel_, ""};
  size_t at = seen_.size() - 1;
  for (;;) {
    const Location& location = seen_[at];
    const auto file = files_.find(location.at.file);
    const std::string path = file == files_.end() ? "" : file->second;
    const auto caller =
        !location.inlined
            ? seen_.rend()
            : std::find_if(seen_.rbegin() + static_cast<int64_t>(seen_.size() - at), seen_.rend(),
                           [&](const Location& other) { return other.at == location.inlined->at; });
    if (!is_wrapper(path) || caller == seen_.rend()) {
      const std::string where =
          path.substr(path.rfind('/') + 1) + ":" + std::to_string(location.at.line);
      if (!location.inlined) return {kernel_, where};
      const auto name = functions_.find(location.inlined->function);
      return {name == functions_.end() ? kernel_ : name->second, where};
    }
    at = static_cast<size_t>(seen_.rend() - caller) - 1;
  }
}

}  // namespace octet::mutation
