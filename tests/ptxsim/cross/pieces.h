// SPDX-License-Identifier: Apache-2.0
// Pieces of kernels' texts that several families share. Each is whole statements; %r150 ... %r159, %d50 ... %d59, %p13 ... %p15 are theirs.
#pragma once

#include <string>

namespace octet::cross {

// %d<reg> = the thread's `bytes` of the parameter, threads of all blocks counted (%r140).
std::string own_place(int reg, int parameter, int bytes);

// Threads of the block together: words of shared memory at `s` from a parameter, or set to 0xA5; and back to a parameter, at the block's
// own part of it.
std::string fill_shared(int words, int threads);
std::string load_shared(int parameter, int words, int threads);
std::string dump_shared(int parameter, int words, int threads);

// Once in a kernel: waits for the phase of `parity` of the mbarrier at [address], for a second at most: a copy that tells other bytes than were expected
// is then seen as bytes that are not there, and as 0xDEADBEEF where shared memory begins.
std::string wait_parity(const std::string& address, int parity);

}  // namespace octet::cross
