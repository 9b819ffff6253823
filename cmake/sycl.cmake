# Settles RECOVERSSM_SYCL to ON or OFF and, where ON, makes the target recoverssm_sycl_runtime: SYCL's headers and libsycl. Looked for in
# RECOVERSSM_SYCL_ROOT, which scripts/sycl-setup fills in the build tree: the runtime compiles kernels, so that this compiler need not.
set(RECOVERSSM_SYCL_ROOT "${PROJECT_SOURCE_DIR}/build/sycl-runtime" CACHE PATH "Where include/sycl/sycl.hpp and lib/libsycl.so are")
if(RECOVERSSM_SYCL)
  find_path(RECOVERSSM_SYCL_INCLUDE sycl/sycl.hpp PATHS ${RECOVERSSM_SYCL_ROOT}/include NO_DEFAULT_PATH)
  find_library(RECOVERSSM_SYCL_LIBRARY sycl PATHS ${RECOVERSSM_SYCL_ROOT}/lib NO_DEFAULT_PATH)
  mark_as_advanced(RECOVERSSM_SYCL_INCLUDE RECOVERSSM_SYCL_LIBRARY)
  if(RECOVERSSM_SYCL_INCLUDE AND RECOVERSSM_SYCL_LIBRARY)
    set(RECOVERSSM_SYCL ON)
  elseif(RECOVERSSM_SYCL STREQUAL "AUTO")
    message(STATUS "recoverssm: no SYCL runtime in ${RECOVERSSM_SYCL_ROOT} (scripts/sycl-setup), so no SYCL module")
    set(RECOVERSSM_SYCL OFF)
  else()
    message(FATAL_ERROR "RECOVERSSM_SYCL: no sycl/sycl.hpp and libsycl.so in ${RECOVERSSM_SYCL_ROOT}; scripts/sycl-setup puts them there")
  endif()
endif()
if(RECOVERSSM_SYCL)
  add_library(recoverssm_sycl_runtime INTERFACE)
  target_include_directories(recoverssm_sycl_runtime SYSTEM INTERFACE ${RECOVERSSM_SYCL_INCLUDE})
  target_link_libraries(recoverssm_sycl_runtime INTERFACE ${RECOVERSSM_SYCL_LIBRARY})
  # The module is looked for by name: programs of the build tree look in its folder. Not in installed ones.
  list(APPEND CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR}/src)
endif()

# What kernels are compiled with, at run time and ahead of it. Contraction is off: what is fused says so. Ids may pass 2^31.
set(RECOVERSSM_SYCL_KERNEL_OPTIONS
    -O2
    -std=c++20
    -ffp-contract=off
    -fno-fast-math
    -fno-sycl-id-queries-fit-in-int
    -foffload-fp32-prec-div
    -foffload-fp32-prec-sqrt)

# Settles RECOVERSSM_SYCL_AOT, kernels compiled when this is built: by a compiler of libsycl's own family (DPC++: icpx, or clang++ with -fsycl), of
# the same libsycl, since it is that library the module speaks to. AdaptiveCpp (acpp) has another.
set(RECOVERSSM_SYCL_AOT AUTO CACHE STRING "SYCL kernels compiled ahead of time: OFF, ON, or AUTO (where there is a SYCL compiler)")
set(RECOVERSSM_SYCL_TARGETS
    intel_gpu_bmg_g21;intel_gpu_bmg_g31;intel_gpu_acm_g10;intel_gpu_acm_g11;intel_gpu_acm_g12
    CACHE STRING "Devices for which SYCL kernels are compiled ahead of time, as -fsycl-targets has them")
if(RECOVERSSM_SYCL AND RECOVERSSM_SYCL_AOT)
  find_program(RECOVERSSM_SYCL_COMPILER icpx HINTS ${RECOVERSSM_SYCL_ROOT}/bin DOC "A SYCL compiler: icpx, or DPC++'s clang++")
  set(refused "no SYCL compiler (RECOVERSSM_SYCL_COMPILER)")
  if(RECOVERSSM_SYCL_COMPILER)
    file(STRINGS ${RECOVERSSM_SYCL_INCLUDE}/sycl/version.hpp version REGEX "__LIBSYCL_MAJOR_VERSION [0-9]+")
    string(REGEX REPLACE ".* " "" version "${version}")
    set(probe ${PROJECT_BINARY_DIR}/sycl_compiler.cc)
    file(WRITE ${probe} "#include <sycl/version.hpp>\nstatic_assert(__LIBSYCL_MAJOR_VERSION == ${version}, \"another libsycl\");\n")
    execute_process(COMMAND ${RECOVERSSM_SYCL_COMPILER} -fsycl -fsyntax-only ${probe} RESULT_VARIABLE refused OUTPUT_QUIET ERROR_VARIABLE words)
    if(NOT refused STREQUAL "0")
      set(refused "${RECOVERSSM_SYCL_COMPILER} is no DPC++ compiler of the libsycl in ${RECOVERSSM_SYCL_ROOT}:\n${words}")
    endif()
  endif()
  if(refused STREQUAL "0")
    set(RECOVERSSM_SYCL_AOT ON)
    list(JOIN RECOVERSSM_SYCL_TARGETS ", " targets)
    message(STATUS "recoverssm: SYCL kernels are compiled ahead of time by ${RECOVERSSM_SYCL_COMPILER} for ${targets}")
  elseif(RECOVERSSM_SYCL_AOT STREQUAL "AUTO")
    message(STATUS "recoverssm: no SYCL kernels from ahead of time: ${refused}")
    set(RECOVERSSM_SYCL_AOT OFF)
  else()
    message(FATAL_ERROR "RECOVERSSM_SYCL_AOT: ${refused}")
  endif()
endif()

# A module of another build may have this version's number and other structs. Both sides have a sum over the headers that they share (load.cc).
file(GLOB shared_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/recoverssm/*.hpp ${PROJECT_SOURCE_DIR}/src/sycl/*.h
     ${PROJECT_SOURCE_DIR}/src/api/*.h)
set(sums "")
foreach(header IN LISTS shared_headers)
  file(SHA256 ${header} sum)
  string(APPEND sums ${sum})
endforeach()
string(SHA256 sums "${sums}")
string(SUBSTRING ${sums} 0 12 sums)
set(RECOVERSSM_SYCL_MODULE_VERSION ${PROJECT_VERSION}-${sums})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shared_headers})
