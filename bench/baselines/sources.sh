# SPDX-License-Identifier: Apache-2.0
# Of build.sh and run.sh, which source it: the options in front of all others, and how a refusal is said.
ggml=
ik=
out=
rest=()
fail() { echo "$(basename "$0"): $1" >&2; exit "${2:-1}"; }

# take_sources ARGS...: --ggml, --ik and --out into variables of these names, what comes after them into `rest`.
take_sources() {
  while [ $# -gt 0 ]; do
    case $1 in
      --ggml | --ik | --out) if [ -z "${2:-}" ]; then fail "$1 is without a value, want a path" 2; fi ;;
      -h | --help) sed -n '3,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
      *) break ;;
    esac
    printf -v "${1#--}" %s "$2"
    shift 2
  done
  rest=("$@")
}
