# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# Stand-in for the toolkit's CMake package ASC: every call is written, one line each, to
# ${CMAKE_BINARY_DIR}/calls.txt, and the host libraries are really compiled.
file(WRITE ${CMAKE_BINARY_DIR}/calls.txt "")

function(record_call name)
  string(REPLACE ";" " " arguments "${ARGN}")
  file(APPEND ${CMAKE_BINARY_DIR}/calls.txt "${name} ${arguments}\n")
endfunction()

function(npu_op_package name)
  record_call(npu_op_package ${name} ${ARGN})
endfunction()

# Generates the interface of each operator.
function(npu_op_code_gen)
  record_call(npu_op_code_gen ${ARGN})
  cmake_parse_arguments(GEN "" "OUT_DIR;PACKAGE" "SRC;COMPILE_OPTIONS" ${ARGN})
  foreach(source ${GEN_SRC})
    if(source MATCHES "([a-z_]+)_def\\.cpp$")
      file(WRITE ${GEN_OUT_DIR}/aclnn_${CMAKE_MATCH_1}.cpp "int aclnn_${CMAKE_MATCH_1};\n")
      file(WRITE ${GEN_OUT_DIR}/aclnn_${CMAKE_MATCH_1}.h "")
    endif()
  endforeach()
  file(WRITE ${GEN_OUT_DIR}/op_proto.cc "int op_proto;\n")
endfunction()

function(npu_op_library name type)
  record_call(npu_op_library ${name} ${type} ${ARGN})
  add_library(${name} SHARED ${ARGN})
  target_compile_features(${name} PRIVATE cxx_std_17)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
  target_include_directories(${name} PRIVATE ${ASCEND_CANN_PACKAGE_PATH}/include)
endfunction()

function(npu_op_kernel_sources target)
  record_call(npu_op_kernel_sources ${target} ${ARGN})
endfunction()
function(npu_op_kernel_options target)
  record_call(npu_op_kernel_options ${target} ${ARGN})
endfunction()
function(npu_op_kernel_library target)
  record_call(npu_op_kernel_library ${target} ${ARGN})
endfunction()

function(npu_op_package_add name)
  record_call(npu_op_package_add ${name} ${ARGN})
  cmake_parse_arguments(ADD "" "" "LIBRARY" ${ARGN})
  foreach(library ${ADD_LIBRARY})
    if(TARGET ${library})
      install(TARGETS ${library} DESTINATION packages/vendors/${name}/lib)
    endif()
  endforeach()
  # The toolkit compiles the kernels in this target.
  add_custom_target(binary COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/kernels_built)
endfunction()
