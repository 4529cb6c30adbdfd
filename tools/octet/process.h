// SPDX-License-Identifier: Apache-2.0
// What the process sets up before anything else, so that no way to its end leaves half a file or says nothing.
#pragma once

#include <exception>

namespace octet::tools {

// - A standard stream that is closed becomes one that fails: else the next file opened would take its number.
// - A write beyond the limit of a file's size (ulimit -f) fails, and is reported, instead of ending the process.
// - SIGINT, SIGTERM and SIGHUP remove the file that is being written before they end the process.
// - An exception that a thread of ours lets through ends the process with kFailed and a sentence.
void prepare_process();

// "octet: not enough memory: ..." on stderr.
void report_exception(const std::exception& error);

}  // namespace octet::tools
