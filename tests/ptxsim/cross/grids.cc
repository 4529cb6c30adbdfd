// SPDX-License-Identifier: Apache-2.0
// Grids one after another, with the edge of griddepcontrol and without; waits that take time; registers handed over.
#include "case.h"
#include "pieces.h"
#include "values.h"

namespace octet::cross {
namespace {

// `first` lets the next grid begin, takes its time, and only then writes; `second` sums what `first` wrote, `third` what `second` did.
Case chain(const std::string& name, bool is_programmatic) {
  Case made;
  made.name = "grids/" + name;
  const std::string place = own_place(0, 0, 4) + own_place(1, 1, 4) + own_place(2, 2, 4);
  const std::string sum =
      "mov.u32 %r1, 0; mov.u32 %r2, 0; ld.param.u64 %d5, [pFROM];\n"
      "SUM: ld.global.u32 %r3, [%d5]; mad.lo.u32 %r1, %r1, 31, %r3; add.u64 %d5, %d5, 4; "
      "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 256; @%p1 bra SUM;\n";
  const auto from = [&](const char* digit) {
    std::string text = sum;
    text.replace(text.find("FROM"), 4, digit);
    return text;
  };
  made.text =
      head() +
      entry_of("first", 3, 0,
               place +
                   "griddepcontrol.launch_dependents; nanosleep.u32 20000; mad.lo.u32 %r1, %r140, "
                   "7, 3; st.global.u32 [%d0], %r1;") +
      entry_of("second", 3, 0,
               place +
                   "griddepcontrol.launch_dependents; nanosleep.u32 10000; griddepcontrol.wait;\n" +
                   from("0") + "add.u32 %r1, %r1, %r140; st.global.u32 [%d1], %r1;") +
      entry_of("third", 3, 0,
               place + "griddepcontrol.wait;\n" + from("1") +
                   "xor.b32 %r1, %r1, %r140; st.global.u32 [%d2], %r1;");
  made.buffers = {output("first", 1024), output("second", 1024), output("third", 1024)};
  for (const char* kernel : {"first", "second", "third"}) {
    Launch launch;
    launch.kernel = kernel;
    launch.grid = {4, 1, 1};
    launch.block = {64, 1, 1};
    launch.is_programmatic = is_programmatic && std::string(kernel) != "first";
    made.launches.push_back(launch);
  }
  return made;
}

Case registers_handed_over() {
  Case made;
  made.name = "grids/setmaxnreg";
  std::string entry = entry_of("k", 1, 0,
                               "setp.ge.u32 %p1, %tx, 128; @%p1 bra MORE; "
                               "setmaxnreg.dec.sync.aligned.u32 40; mov.u32 %r1, 3; bra.uni END;\n"
                               "MORE: setmaxnreg.inc.sync.aligned.u32 152; mov.u32 %r1, 5;\nEND: "
                               "mad.lo.u32 %r1, %r1, 1000, %tx;\n" +
                                   own_place(0, 0, 4) + "st.global.u32 [%d0], %r1;");
  entry.insert(entry.find(") {") + 2, " .maxntid 256, 1, 1 .minnctapersm 1 ");
  made.text = head() + entry;
  made.buffers = {output("d", 1024)};
  Launch launch;
  launch.block = {256, 1, 1};
  made.launches = {launch};
  return made;
}

}  // namespace

void add_grids(std::vector<Case>& cases) {
  cases.push_back(chain("griddepcontrol, programmatic edges", true));
  cases.push_back(chain("griddepcontrol, plain edges", false));
  cases.push_back(registers_handed_over());
}

}  // namespace octet::cross
