// SPDX-License-Identifier: Apache-2.0
#include "simulate.h"

#include <algorithm>
#include <cstring>
#include <list>

#include "ptxsim/insn/decode.h"
#include "ptxsim/text/parse.h"

namespace octet::cross {
namespace {

using namespace ptxsim;

// Addresses of the buffers, then the maps' bytes.
struct Given {
  std::vector<uint64_t> addresses;
  std::vector<tile::TensorMapBytes> maps;
};

std::vector<uint8_t> parameters_of(const machine::Program& program, const Given& given) {
  std::vector<uint8_t> bytes(program.parameter_bytes);
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const bool is_map = i >= given.addresses.size();
    const void* from = is_map
                           ? static_cast<const void*>(given.maps[i - given.addresses.size()].data())
                           : &given.addresses[i];
    std::memcpy(bytes.data() + program.parameters[i].offset, from, program.parameters[i].bytes);
  }
  return bytes;
}

Status make_maps(const Case& what, Given* given) {
  for (const Map& map : what.maps) {
    tile::TensorMapArgs args = map.args;
    args.base = given->addresses[map.buffer] + map.offset;
    OCTET_ASSIGN_OR_RETURN(const auto bytes, tile::encode(args));
    given->maps.push_back(bytes);
  }
  return {};
}

Status run_launches(const Case& what, const text::Module& module, machine::Machine& machine,
                    const Given& given) {
  OCTET_ASSIGN_OR_RETURN(const insn::ModuleData data,
                         insn::ModuleData::load(module, machine.memory()));
  std::list<machine::Program> programs;  // stay where they are
  std::vector<machine::Launch> launches;
  for (const Launch& launch : what.launches) {
    OCTET_ASSIGN_OR_RETURN(machine::Program program, insn::decode(module, launch.kernel, data));
    programs.push_back(std::move(program));
    launches.push_back({&programs.back(), launch.grid, launch.block, launch.cluster,
                        launch.dynamic_shared_bytes, parameters_of(programs.back(), given),
                        launch.is_programmatic});
  }
  return machine.run(launches);
}

Status run(const Case& what, const machine::Settings& settings, std::vector<Bytes>* outputs) {
  OCTET_ASSIGN_OR_RETURN(const text::Module module, text::parse(what.text));
  machine::Machine machine(settings);
  Given given;
  for (const Buffer& buffer : what.buffers) {
    given.addresses.push_back(
        machine.memory().allocate(buffer.name, buffer.bytes.size(), !buffer.is_output));
    OCTET_RETURN_IF_ERROR(machine.memory().write(given.addresses.back(), buffer.bytes));
  }
  OCTET_RETURN_IF_ERROR(make_maps(what, &given));
  OCTET_RETURN_IF_ERROR(run_launches(what, module, machine, given));
  for (size_t i = 0; i < what.buffers.size(); ++i) {
    if (!what.buffers[i].is_output) continue;
    OCTET_ASSIGN_OR_RETURN(Bytes bytes,
                           machine.memory().read(given.addresses[i], what.buffers[i].bytes.size()));
    outputs->push_back(std::move(bytes));
  }
  return {};
}

}  // namespace

Outcome simulate(const Case& what, const machine::Settings& settings) {
  Outcome outcome;
  if (!what.probes.empty()) {
    Bytes accepted;
    for (const TensorMapArgs& args : what.probes)
      accepted.push_back(tile::encode(args).ok() ? 1 : 0);
    outcome.outputs = {accepted};
    return outcome;
  }
  const Status status = run(what, settings, &outcome.outputs);
  if (!status.ok()) outcome = {status.why, {}};
  return outcome;
}

}  // namespace octet::cross
