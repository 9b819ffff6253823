# cmake --install: headers, both libraries, the command, a CMake package and pkg-config files. Three components, which are also the
# Debian packages: Runtime (librecoverssm.so.N), Development (everything to build with), Command (recoverssm). With SYCL a fourth, Sycl.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/recoverssm)

# recoverssm::c and recoverssm::cpp, as in the build tree, with the installed headers.
foreach(target recoverssm recoverssm_shared)
  set_property(TARGET ${target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
set_target_properties(recoverssm PROPERTIES EXPORT_NAME cpp)
set_target_properties(recoverssm_shared PROPERTIES EXPORT_NAME c)
target_compile_features(recoverssm INTERFACE cxx_std_20)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/recoverssm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT Development)
install(TARGETS recoverssm EXPORT recoverssmCppTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
install(
  TARGETS recoverssm_shared
  EXPORT recoverssmCTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT Runtime
          NAMELINK_COMPONENT Development)
# The SYCL backend's module, which the library looks for beside itself. Its libsycl is the system's or in LD_LIBRARY_PATH.
if(RECOVERSSM_SYCL)
  install(TARGETS recoverssm_sycl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Sycl NAMELINK_SKIP)
  if(RECOVERSSM_SYCL_AOT)
    install(FILES ${PROJECT_BINARY_DIR}/src/librecoverssm_sycl_kernels.so.0 DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Sycl)
  endif()
endif()
if(RECOVERSSM_BUILD_CLI)
  install(TARGETS recoverssm_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT Command)
endif()

# The CMake package: find_package(recoverssm 0.1 COMPONENTS C) or Cpp.
foreach(component C Cpp)
  install(
    EXPORT recoverssm${component}Targets
    NAMESPACE recoverssm::
    DESTINATION ${package_dir}
    COMPONENT Development)
endforeach()
set(recoverssm_cpp_dependencies hwy Threads)
set(pc_cuda "")
if(RECOVERSSM_CUDA)
  list(APPEND recoverssm_cpp_dependencies CUDAToolkit)
  set(pc_cuda " -lcudart_static -ldl -lrt") # where the toolkit is, the user says: -L or LIBRARY_PATH
endif()
configure_package_config_file(cmake/recoverssmConfig.cmake.in ${PROJECT_BINARY_DIR}/recoverssmConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/recoverssmConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/recoverssmConfig.cmake ${PROJECT_BINARY_DIR}/recoverssmConfigVersion.cmake
  DESTINATION ${package_dir}
  COMPONENT Development)

# pkg-config files. Their paths are relative to where they lie, so that the prefix may move.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
foreach(dir LIBDIR INCLUDEDIR)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_${dir} BASE_DIRECTORY ${pc_dir} OUTPUT_VARIABLE pc_${dir})
endforeach()
foreach(name recoverssm recoverssm-cpp)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(
    FILES ${PROJECT_BINARY_DIR}/${name}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT Development)
endforeach()

include(cmake/debian.cmake)
