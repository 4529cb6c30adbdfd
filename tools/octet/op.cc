// SPDX-License-Identifier: Apache-2.0
// octet op: one operation of the library on tensors from a file.
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "command.h"
#include "console.h"
#include "core/nearest.h"
#include "cpu/thread_pool.h"
#include "dispatch/operations.h"
#include "layer_flags.h"
#include "output_file.h"
#include "progress_bar.h"
#include "report.h"

namespace octet::tools {
namespace {

struct OpFlags {
  std::string name, input, output;
  std::vector<std::string> set;
  bool list = false, json = false;
  LayerFlags layer_flags;  // --backend and --threads
};

std::string join(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
  }
  return text.empty() ? "nothing" : text;
}

Json operation_json(const dispatch::OperationInfo& op) {
  return {{"name", op.name},
          {"summary", op.summary},
          {"reads", op.reads},
          {"settings", op.settings},
          {"writes", op.writes}};
}

void print(const dispatch::OperationInfo& op) {
  print_out("{}: {}\n", op.name, op.summary);
  print_table(
      {{"  reads", join(op.reads)}, {"  --set", join(op.settings)}, {"  writes", join(op.writes)}});
}

int list_operations(bool json) {
  Json all = Json::array();
  for (const dispatch::OperationInfo& op : dispatch::operations()) {
    if (json) {
      all.push_back(operation_json(op));
    } else {
      print(op);
    }
  }
  if (json) print_json(all);
  return kDone;
}

const dispatch::OperationInfo* find_operation(std::string_view name) {
  for (const dispatch::OperationInfo& op : dispatch::operations()) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

Status unknown_operation(std::string_view name) {
  std::vector<std::string_view> names;
  for (const dispatch::OperationInfo& op : dispatch::operations()) names.push_back(op.name);
  return misuse(fmt::format("no operation '{}'{}", name, did_you_mean(name, names)));
}

Result<dispatch::Settings> parse_settings(const std::vector<std::string>& words) {
  dispatch::Settings settings;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return misuse(fmt::format("--set: found '{}', want key=value", word));
    }
    if (!settings.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      return misuse(fmt::format("--set {}: found twice, want it once", word.substr(0, equals)));
    }
  }
  return settings;
}

Json describe_tensors(const NamedTensors& tensors) {
  Json json = Json::object();
  for (const auto& [name, t] : tensors) {
    json[name] = {{"dtype", dtype_name(t.dtype())}, {"shape", t.dims()}};
  }
  return json;
}

void report(const OpFlags& flags, const NamedTensors& outputs, double seconds) {
  if (flags.json) {
    print_json({{"what", "op"},
                {"operation", flags.name},
                {"us", seconds * 1e6},
                {"outputs", describe_tensors(outputs)}});
    return;
  }
  print_out("{}: {}\n", flags.name, human_seconds(seconds));
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, t] : outputs) {
    rows.push_back({"  " + name, fmt::format("{} {}", dtype_name(t.dtype()), to_string(t.dims()))});
  }
  print_table(rows);
}

Status run_op(const dispatch::OperationInfo& op, const OpFlags& flags) {
  OCTET_ASSIGN_OR_RETURN(const dispatch::Settings settings, parse_settings(flags.set));
  OCTET_ASSIGN_OR_RETURN(const Backend backend, backend_from_name(flags.layer_flags.backend));
  OCTET_ASSIGN_OR_RETURN(const int threads, num_threads(flags.layer_flags));
  if (flags.input.empty()) return misuse("--input is missing, want a safetensors file");
  const bool writes = !op.writes.empty();
  if (writes && flags.output.empty()) return misuse("--output is missing, want a file to write");
  if (writes) OCTET_RETURN_IF_ERROR(check_output_folder(flags.output));

  OCTET_ASSIGN_OR_RETURN(const checkpoint::SafetensorsFile file,
                         checkpoint::SafetensorsFile::open(flags.input));
  cpu::ThreadPool pool(threads);
  double seconds = 0;
  const auto timed = [&]() -> Result<NamedTensors> {
    const BusyBar bar(op.name);
    const Stopwatch watch;
    auto made = dispatch::run_operation(op.name, file.tensors(), settings, backend, pool);
    seconds = watch.seconds();
    if (made.ok() || made.status().code == Code::kMisuse) return made;
    return Status{made.status().code, fmt::format("{}: {}", flags.input, made.status().why)};
  };
  OCTET_ASSIGN_OR_RETURN(const NamedTensors outputs, timed());
  if (writes) {
    NamedViews views;
    for (const auto& [name, tensor] : outputs) views[name] = tensor.view();
    OCTET_RETURN_IF_ERROR(save_result(flags.output, views));
  }
  report(flags, outputs, seconds);
  return {};
}

}  // namespace

int op_verb(const Args& args) {
  OpFlags flags;
  CLI::App app;
  describe_verb(
      app, "op",
      "Runs one operation on the tensors of a safetensors file and writes its outputs to\n"
      "another. Tensors that the operation does not name are ignored. octet op --list\n"
      "shows what each operation reads, its settings and what it writes; a name that ends\n"
      "in ? is optional. check_weights writes no file.",
      "octet op topk --input logits.safetensors --output ids.safetensors --set router=softmax "
      "--set top_k=6");
  app.add_option("name", flags.name, "the operation");
  app.add_option("--input", flags.input, "safetensors file to read");
  app.add_option("--output", flags.output, kOutputHelp);
  app.add_option("--set", flags.set, "key=value, a setting of the operation; may be repeated")
      ->allow_extra_args(false);
  add_backend_flag(app, flags.layer_flags);
  add_threads_flag(app, flags.layer_flags);
  app.add_flag("--list", flags.list, "list the operations");
  app.add_flag("--json", flags.json, "the report as JSON");
  if (const auto exit = parse(app, args)) return *exit;
  if (flags.list) return list_operations(flags.json);
  if (flags.name.empty()) {
    return finish(misuse("op: the operation is missing, want one of octet op --list"), "op");
  }
  const dispatch::OperationInfo* op = find_operation(flags.name);
  if (op == nullptr) return finish(unknown_operation(flags.name), "op");
  const auto work = [&] { return run_op(*op, flags); };
  const bool writes = !op->writes.empty();
  return finish(writes ? write_output(flags.output, {flags.input}, work) : work(), "op");
}

}  // namespace octet::tools
