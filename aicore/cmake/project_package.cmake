# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# The operator package by the operator project that toolkits of CANN 8 carry for msopgen: a CMake
# project with empty op_host and op_kernel. It is copied into the build folder, given the sources of
# this package and built there by its own rules. Reads vendor_name, operators, host_sources and
# operator_project of ../CMakeLists.txt, which includes this file.
include(ExternalProject)

foreach(part
    CMakeLists.txt
    cmake/config.cmake
    cmake/func.cmake
    cmake/intf.cmake
    op_host/CMakeLists.txt
    op_kernel/CMakeLists.txt)
  if(NOT EXISTS "${operator_project}/${part}")
    message(FATAL_ERROR "mindspore_relay: the operator project ${operator_project} lacks ${part}")
  endif()
endforeach()

# ---- the project, in the build folder ------------------------------------------------------------

# Everything is made anew: the project's scripts stop at what an interrupted build left.
set(project "${CMAKE_BINARY_DIR}/project")
set(package "${CMAKE_BINARY_DIR}/package")
set(steps "${CMAKE_BINARY_DIR}/package_steps")
file(REMOVE_RECURSE "${project}" "${package}" "${steps}")
file(MAKE_DIRECTORY "${project}")
# Some of its scripts are links that lead out of the project, and toolkits may be read-only.
execute_process(COMMAND cp -RL "${operator_project}/." "${project}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND chmod -R u+rwx "${project}" COMMAND_ERROR_IS_FATAL ANY)
# Examples, and plugins for other frameworks.
file(GLOB examples "${project}/op_host/*.cpp" "${project}/op_host/*.h"
  "${project}/op_kernel/*.cpp" "${project}/op_kernel/*.h")
if(examples)
  file(REMOVE ${examples})
endif()
file(REMOVE_RECURSE "${project}/framework")

# The project asks for C++11 by options that come after CMAKE_CXX_FLAGS; this package is C++17.
file(GLOB settings "${project}/cmake/*.cmake")
foreach(file IN LISTS settings)
  file(READ "${file}" text)
  string(REGEX REPLACE "-std=(c|gnu)\\+\\+1[14]" "-std=c++17" text "${text}")
  file(WRITE "${file}" "${text}")
endforeach()

# The project takes all sources of its two folders. What is put there includes the file itself,
# whose own includes then lead from where it is.
foreach(source IN LISTS host_sources)
  get_filename_component(name "${source}" NAME)
  file(WRITE "${project}/op_host/${name}" "#include \"${source}\"\n")
endforeach()
set(kernel_options)
foreach(operator IN LISTS operators)
  string(REPLACE ":" ";" operator ${operator})
  list(GET operator 0 folder)
  list(GET operator 1 op_type)
  file(WRITE "${project}/op_kernel/${folder}.cpp"
    "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${folder}/op_kernel/${folder}.cpp\"\n")
  # Synchronisation is written out in the kernels.
  string(APPEND kernel_options
    "add_ops_compile_options(${op_type} OPTIONS --cce-auto-sync=off)\n")
endforeach()
file(READ "${project}/op_kernel/CMakeLists.txt" text)
file(WRITE "${project}/op_kernel/CMakeLists.txt" "${kernel_options}${text}")

# ---- build and installation ----------------------------------------------------------------------

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
ExternalProject_Add(mindspore_relay_package
  PREFIX "${steps}"
  SOURCE_DIR "${project}"
  BINARY_DIR "${package}"
  # The rules for the kernels hand $(MAKE) on.
  CMAKE_GENERATOR "Unix Makefiles"
  CMAKE_CACHE_ARGS
    -DCMAKE_BUILD_TYPE:STRING=${CMAKE_BUILD_TYPE}
    -DCMAKE_CXX_COMPILER:FILEPATH=${CMAKE_CXX_COMPILER}
    -DASCEND_CANN_PACKAGE_PATH:PATH=${ASCEND_HOME_PATH}
    -DASCEND_COMPUTE_UNIT:STRING=${ASCEND_COMPUTE_UNIT}
    -DASCEND_PYTHON_EXECUTABLE:STRING=python3
    -Dvendor_name:STRING=${vendor_name}
    -DENABLE_SOURCE_PACKAGE:BOOL=False
    -DENABLE_BINARY_PACKAGE:BOOL=True
    -DENABLE_TEST:BOOL=False
    -DENABLE_CROSS_COMPILE:BOOL=False
    -DASCEND_PACK_SHARED_LIBRARY:BOOL=False
  # The compilation of the kernels is a target that is not part of `all`, and of whose inputs the
  # first toolkits of CANN 8 name only some: `all` makes them.
  BUILD_COMMAND ${CMAKE_COMMAND} --build "${package}"
  COMMAND ${CMAKE_COMMAND} --build "${package}" --target binary
  BUILD_ALWAYS TRUE
  INSTALL_COMMAND "")

install(CODE "execute_process(
  COMMAND \"${CMAKE_COMMAND}\" --install \"${package}\" --prefix \"\${CMAKE_INSTALL_PREFIX}\"
  COMMAND_ERROR_IS_FATAL ANY)")
