# shellcheck shell=bash
# Shared by run, test, .ci/run and scripts/*: packages, configuring, building, progress. Sourced with `set -euo pipefail` in force.
# Everything said here goes to stderr; stdout belongs to the command that was asked for.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [[ -t 2 ]]; then on_terminal=1; else on_terminal=''; fi
columns=$(tput cols 2>/dev/null || echo 80)

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# One line that the next one overwrites: on a terminal only.
status() {
  [[ $on_terminal ]] || return 0
  printf '\r\033[K%s' "${1:0:columns-1}" >&2
}
status_end() { [[ -z $on_terminal ]] || printf '\r\033[K' >&2; }

# progress TEXT DONE TOTAL DETAIL: a status line on a terminal, elsewhere a line a tenth of the way.
progress_tenth=-1
progress() {
  local text=$1 done=$2 total=$3 detail=$4
  if [[ $on_terminal ]]; then
    status "$text $done/$total  $detail"
  elif ((total >= 10 && done * 10 / total > progress_tenth && done > 0)); then
    progress_tenth=$((done * 10 / total))
    say "$text $done/$total"
  fi
}

# timed NAME COMMAND...: runs it and says how long it took, if that was long enough to notice or if times are asked for.
timed() {
  local name=$1 start=$SECONDS result=0
  shift
  "$@" || result=$?
  if [[ ${SHOW_TIMES:-} ]] || ((SECONDS - start >= 2)); then say "==> $name: $((SECONDS - start)) s"; fi
  return "$result"
}

# Names from a packages file, comments and blanks left out.
read_packages() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s\n' "$package"
  done
}

apt_get() { # the arguments of apt-get; as root, or through sudo
  local -a as_root=()
  ((EUID == 0)) || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 "$@"
}

# ensure_packages NAME...: installs what dpkg does not know as installed. Asks no network when nothing is missing.
ensure_packages() {
  local -a missing
  if ! command -v dpkg-query >/dev/null; then
    command -v cmake >/dev/null || die "this is not a Debian system; install the equivalents of: $*"
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "missing packages, and no apt-get to install them with: ${missing[*]}"
  ((EUID == 0)) || command -v sudo >/dev/null ||
    die "missing packages: ${missing[*]}
  run as root, or have an administrator run: apt-get install ${missing[*]}"
  say "installing: ${missing[*]}"
  local log=$root/build/packages.log line count=0
  {
    apt_get update || echo "W: apt-get update failed; trying the lists that are there"
    apt_get install --no-install-recommends "${missing[@]}" || echo "E: apt-get install failed"
  } 2>&1 </dev/null | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    case $line in
      Get:* | Unpacking* | 'Setting up'*) status "installing ($((++count))) $line" ;;
    esac
  done
  status_end
  mapfile -t missing < <(missing_packages "${missing[@]}")
  ((${#missing[@]} == 0)) || {
    tail -n 20 "$log" >&2
    die "could not install: ${missing[*]} (whole output: $log)"
  }
}

# Ninja's output, reduced: progress, and whatever a compiler has to say.
show_build() {
  local line
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*)$ ]]; then
      [[ ${BASH_REMATCH[3]} == Re-*ing* ]] || progress "building" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[3]##* }"
    elif [[ $line != 'ninja: no work to do.' && $line != '-- '* && $line != 'ninja: Entering directory'* ]]; then
      status_end
      say "$line"
    fi
  done
  status_end
}

# What a caller of prepare wants CMake to be told beside the preset. A build folder keeps it: a later call without wishes takes what is there.
cmake_arguments=()

configure() { # preset
  local preset=$1 build=$root/build/$1 stamp=$root/build/$1/.configured wanted="${cmake_arguments[*]}"
  local log=$root/build/$1.configure.log
  local -a fresh=()
  # A build folder that came along from another place cannot be used.
  if [[ -f $build/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
    fresh=(--fresh)
  elif [[ -f $build/build.ninja && -f $stamp && ! $root/CMakePresets.json -nt $stamp && (-z $wanted || $wanted == "$(<"$stamp")") ]]; then
    return 0 # ninja itself runs CMake again when a CMakeLists.txt has changed
  fi
  status "configuring $preset"
  (cd "$root" && cmake --preset "$preset" "${fresh[@]}" "${cmake_arguments[@]}") >"$log" 2>&1 </dev/null || {
    status_end
    cat "$log" >&2
    die "configuring failed (preset $preset)"
  }
  [[ -z $wanted && -f $stamp ]] || echo "$wanted" >"$stamp"
  touch "$stamp"
  sed -n 's/^-- recoverssm: //p' "$log" >&2
  status_end
}

ninja_build() { # preset target...
  local preset=$1
  shift
  progress_tenth=-1
  # LC_ALL keeps compiler messages as they are found in documentation and searches.
  LC_ALL=C NINJA_STATUS='[%f/%t] ' ninja -C "$root/build/$preset" "$@" 2>&1 </dev/null | show_build ||
    die "the build failed (preset $preset)"
}

# prepare PRESET TARGET...: packages, configuration and build, one at a time for each build folder.
prepare() {
  local preset=$1
  local -a packages
  mkdir -p "$root/build"
  mapfile -t packages < <(read_packages "$root/scripts/packages.txt")
  (
    exec 9>"$root/build/$preset.lock"
    flock -n 9 || {
      say "waiting for another build of preset $preset"
      flock 9
    }
    timed packages ensure_packages "${packages[@]}"
    timed configure configure "$preset"
    timed build ninja_build "$@"
  )
}
