# Flags of every target. The bits are part of the contract, so contraction is off for all code, tests included, and nothing may relax
# floating point. -fno-math-errno and -fno-trapping-math change no value: they say that nobody reads errno or the exception flags.
add_library(recoverssm_options INTERFACE)
target_compile_options(
  recoverssm_options
  INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off
            -fno-math-errno
            -fno-trapping-math
            -Wall
            -Wextra
            -Wconversion
            -Wshadow
            # A release knows nothing of the folder it was built in (scripts/reproducible).
            $<$<CONFIG:Release>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>
            $<$<BOOL:${RECOVERSSM_WERROR}>:-Werror>>)

# GCC 12 warns about a memcpy inside std::string's operator+ that cannot happen (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(recoverssm_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-restrict>)
endif()
