#!/usr/bin/env bash
# install_test.sh BUILD WORK: installs BUILD into WORK, moves it, and builds and runs the examples against it with a clean environment.
# Also: what must be refused, and that no installed file knows where it was built. Prints what fails; exit status 1 if something did.
set -uo pipefail
build=$1 work=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$work"
mkdir -p "$work"
failures=0
fail() { printf 'FAILED: %s\n' "$*" && ((++failures)); }

# The static library with CUDA in it wants the toolkit's runtime: where that is, a user says.
toolkit=()
cudart=$(sed -n 's/^CUDA_cudart_static_LIBRARY:FILEPATH=//p' "$build/CMakeCache.txt")
if [[ $cudart ]] && ! grep -q '^RECOVERSSM_CUDA:[A-Z]*=OFF$' "$build/CMakeCache.txt"; then
  toolkit=("CUDAToolkit_ROOT=$(dirname "$(dirname "$cudart")")" "LIBRARY_PATH=$(dirname "$cudart")")
fi
clean() { env -i PATH=/usr/bin:/bin HOME="$work" LANG=C.UTF-8 CCACHE_DISABLE=1 "${toolkit[@]}" "$@"; }
works() { # name command...
  local name=$1
  shift
  clean "$@" >"$work/log" 2>&1 || { fail "$name: exit status $?" && cat "$work/log"; }
}
refused() { # name words command...: fails, and says the words
  local name=$1 words=$2
  shift 2
  if clean "$@" >"$work/log" 2>&1; then fail "$name: was accepted"; fi
  # CMake breaks its messages into lines.
  tr -s ' \n' ' ' <"$work/log" | grep -qF -- "$words" || { fail "$name: does not say \"$words\"" && cat "$work/log"; }
}
prints() { # name expected command...
  local name=$1 expected=$2 got
  shift 2
  got=$(clean "$@" 2>&1) || fail "$name: exit status $?"
  [[ $got =~ $expected ]] || fail "$name: printed \"$got\", expected $expected"
}

# Installed in one place and used in another: nothing in it may depend on the prefix.
works "cmake --install" cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/prefix"
prefix=$work/prefix
lib=$(dirname "$(find "$prefix" -name librecoverssm.a)")
export_path=("PKG_CONFIG_PATH=$lib/pkgconfig" "LD_LIBRARY_PATH=$lib")
cp -r "$root/examples" "$work/examples"
result='^recoverssm [0-9]+\.[0-9]+\.[0-9]+: committed 3 tokens, state of block 1: 0, then 0\.[0-9]+$'

works "C++, CMake: configure" cmake -S "$work/examples/cpp" -B "$work/cpp" -DCMAKE_PREFIX_PATH="$prefix"
works "C++, CMake: build" cmake --build "$work/cpp"
prints "C++, CMake: run" "$result" "$work/cpp/example"
# shellcheck disable=SC2016 # expanded inside
works "C++, pkg-config: build" env "${export_path[@]}" sh -c 'c++ -std=c++20 "$1" -o "$2" $(pkg-config --cflags --libs recoverssm-cpp)' - \
  "$work/examples/cpp/main.cc" "$work/cpp_pkg_config"
prints "C++, pkg-config: run" "$result" "$work/cpp_pkg_config"
works "C, pkg-config: build" env "${export_path[@]}" make -C "$work/examples/c"
prints "C, pkg-config: run" "$result" env "${export_path[@]}" "$work/examples/c/example"
prints "C, pkg-config: run a session" '^a session of [0-9]+ bytes taken up after 12 tokens, now 16$' env "${export_path[@]}" \
  "$work/examples/c/session"
prints "C, pkg-config: run several sequences with rollbacks" '^3 sequences, 32 tokens kept and 40 dropped: every bit as decoded token by token$' \
  env "${export_path[@]}" "$work/examples/c/rollback"
# Both APIs give the same figures.
[[ $("$work/cpp/example") == "$(env "${export_path[@]}" "$work/examples/c/example")" ]] || fail "C and C++ print different figures"

# project NAME LANGUAGE FIND-ARGUMENTS LINKED-TARGET: a project of one file.
project() {
  mkdir -p "$work/$1"
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(%s LANGUAGES %s)\nfind_package(recoverssm %s)\n' "$1" "$2" "$3" >"$work/$1/CMakeLists.txt"
  [[ -z ${4:-} ]] || printf 'add_executable(it %s)\ntarget_link_libraries(it PRIVATE %s)\n' "$work/examples/c/main.c" "$4" >>"$work/$1/CMakeLists.txt"
}
# shellcheck disable=SC2016 # expanded inside
configure=(sh -c 'cmake -S "$1/$3" -B "$1/$3/build" -DCMAKE_PREFIX_PATH="$2" $4' - "$work" "$prefix")
without_hwy=-DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON

# A C project has no C++ compiler to offer, and need not have Highway.
project c_only C 'REQUIRED COMPONENTS C' recoverssm::c
works "C, CMake: configure" "${configure[@]}" c_only $without_hwy
works "C, CMake: build" cmake --build "$work/c_only/build"
prints "C, CMake: run" "$result" "$work/c_only/build/it"
project optional CXX 'REQUIRED COMPONENTS C OPTIONAL_COMPONENTS Cpp'
works "optional component" "${configure[@]}" optional $without_hwy
project both CXX '0.1 REQUIRED'
works "no component named" "${configure[@]}" both
project unknown CXX 'REQUIRED COMPONENTS Rust'
refused "unknown component" "there is no component Rust, expected C or Cpp" "${configure[@]}" unknown
project newer CXX '0.2 REQUIRED'
refused "version 0.2" 'compatible with requested version "0.2"' "${configure[@]}" newer
project older CXX '0.0.9 REQUIRED'
refused "version 0.0.9" 'compatible with requested version "0.0.9"' "${configure[@]}" older
project no_hwy CXX 'REQUIRED COMPONENTS Cpp'
refused "Cpp without Highway" "hwy" "${configure[@]}" no_hwy $without_hwy

# Nothing points back to where it was built; with debug information it has to.
if grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=Release$' "$build/CMakeCache.txt"; then
  for place in "$root" "$build"; do
    if found=$(grep -rlF "$place" "$prefix"); then fail "these know $place: $found"; fi
  done
else
  printf 'not a release: paths in installed files were not looked for\n'
fi

((failures == 0)) && printf 'Install: ok\n'
((failures == 0))
