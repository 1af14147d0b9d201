# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# The operator package by the toolkit's CMake package ASC. Reads vendor_name, operators and
# host_sources of ../CMakeLists.txt, which includes this file.

npu_op_package(${vendor_name}
  TYPE RUN
  CONFIG
    ENABLE_SOURCE_PACKAGE False
    ENABLE_BINARY_PACKAGE True
    # Installed by cmake --install, below its prefix, not packed into a .run file.
    ENABLE_CPACK False
    INSTALL_PATH .)

if(NOT ASCEND_AUTOGEN_PATH)
  set(ASCEND_AUTOGEN_PATH "${CMAKE_BINARY_DIR}/autogen")
endif()
file(MAKE_DIRECTORY "${ASCEND_AUTOGEN_PATH}")

npu_op_code_gen(
  SRC ${host_sources}
  PACKAGE ${vendor_name}
  COMPILE_OPTIONS -std=c++17
  OUT_DIR ${ASCEND_AUTOGEN_PATH})

file(GLOB aclnn_sources ${ASCEND_AUTOGEN_PATH}/aclnn_*.cpp)
file(GLOB proto_sources ${ASCEND_AUTOGEN_PATH}/op_proto.cc)
set_source_files_properties(${aclnn_sources} ${proto_sources} PROPERTIES GENERATED TRUE)
npu_op_library(cust_opapi ACLNN ${aclnn_sources})
npu_op_library(cust_op_proto GRAPH ${host_sources} ${proto_sources})
npu_op_library(cust_optiling TILING ${host_sources})

# Device side. The toolkit compiles a copy of each kernel file: its relative includes lead from the
# folder it was copied from.
npu_op_kernel_sources(ascendc_kernels
  OP_TYPE RelayAttention
  KERNEL_DIR relay_attention/op_kernel
  KERNEL_FILE relay_attention.cpp)
npu_op_kernel_sources(ascendc_kernels
  OP_TYPE PrefixEncoder
  KERNEL_DIR prefix_encoder/op_kernel
  KERNEL_FILE prefix_encoder.cpp)
npu_op_kernel_library(ascendc_kernels
  SRC_BASE ${CMAKE_CURRENT_SOURCE_DIR}
  TILING_LIBRARY cust_optiling)
foreach(operator IN LISTS operators)
  string(REPLACE ":" ";" operator ${operator})
  list(GET operator 0 folder)
  list(GET operator 1 op_type)
  # Synchronisation is written out in the kernels.
  npu_op_kernel_options(ascendc_kernels ${op_type}
    OPTIONS -I${CMAKE_CURRENT_SOURCE_DIR}/${folder}/op_kernel --cce-auto-sync=off)
endforeach()

npu_op_package_add(${vendor_name} LIBRARY cust_optiling cust_opapi cust_op_proto ascendc_kernels)

# The toolkit leaves the compilation of the kernels to a target that is not part of `all`.
if(TARGET binary)
  add_custom_target(mindspore_relay_kernels ALL)
  add_dependencies(mindspore_relay_kernels binary)
endif()
