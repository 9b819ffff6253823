# Debian packages: cmake --preset package, then cpack in build/package (scripts/deb-test does it, and tries them).
#   librecoverssm0     the C ABI, for programs that were built with it
#   librecoverssm-dev  headers, both libraries, CMake and pkg-config files
#   recoverssm         the command
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL Runtime Development Command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "speculative decoding for gated delta rule layers")
set(RECOVERSSM_MAINTAINER "the recoverssm authors <recoverssm@localhost>" CACHE STRING "Maintainer of the Debian packages: NAME <MAIL>")
set(CPACK_PACKAGE_CONTACT ${RECOVERSSM_MAINTAINER})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
# Folders are made with these permissions whatever the umask.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(debian_about
    "recoverssm runs windows of draft tokens through layers with a gated delta
rule (Qwen3-Next, Kimi-Linear and others) and keeps any prefix of them,
without storing a state per draft.")

# The version in the library's name is that of the ABI.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME librecoverssm0)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
# Debian's way to have the linker's cache updated; CPack adds maintainer scripts that do it as well.
file(WRITE ${PROJECT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/triggers)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "${debian_about}
.
This package has the shared library with the C interface.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME librecoverssm-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "librecoverssm0 (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
# Only whoever links the archive needs Highway.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS libhwy-dev)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "${debian_about}
.
This package has the C and C++ headers, the static library with the C++
interface, and files for CMake and pkg-config.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME recoverssm)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_COMMAND_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "${debian_about}
.
This package has the recoverssm command: what the library can do on this
machine, and replay of recorded calls.")

# Every package has a copyright file and a changelog, as Debian asks; -n leaves the time out of the compressed file.
configure_file(cmake/copyright.in ${PROJECT_BINARY_DIR}/copyright @ONLY)
configure_file(cmake/changelog.Debian.in ${PROJECT_BINARY_DIR}/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nc ${PROJECT_BINARY_DIR}/changelog.Debian OUTPUT_FILE ${PROJECT_BINARY_DIR}/changelog.Debian.gz
                COMMAND_ERROR_IS_FATAL ANY)
foreach(component Runtime Development Command)
  string(TOUPPER ${component} upper)
  set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(
    FILES ${PROJECT_BINARY_DIR}/copyright ${PROJECT_BINARY_DIR}/changelog.Debian.gz
    DESTINATION ${doc_dir}
    COMPONENT ${component})
endforeach()

include(CPack)
