# SPDX-License-Identifier: Apache-2.0
# cmake -D GIT=... -D SOURCE=... -D PROJECT_VERSION=... -D FROM=... -D TO=... -P build_info.cmake: FROM with version and revision to TO,
# which is written where it changes. Without git, or outside a checkout, the revision is "unknown".
set(OCTET_GIT_REVISION "unknown")
if(GIT)
  execute_process(COMMAND "${GIT}" describe --always --dirty WORKING_DIRECTORY "${SOURCE}"
                  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(OCTET_GIT_REVISION "${revision}")
  endif()
endif()
configure_file("${FROM}" "${TO}" @ONLY)
