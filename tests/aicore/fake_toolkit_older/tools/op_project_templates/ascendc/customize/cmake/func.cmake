# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0

# Compiles the definitions and has the interface of each operator generated from them.
function(opbuild)
  cmake_parse_arguments(ARG "" "OUT_DIR" "OPS_SRC" ${ARGN})
  execute_process(
    COMMAND ${CMAKE_COMPILE} -fPIC -shared -std=c++11 -D_GLIBCXX_USE_CXX11_ABI=0
      -I ${ASCEND_CANN_PACKAGE_PATH}/include ${ARG_OPS_SRC} -o ${ARG_OUT_DIR}/libascend_all_ops.so
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND ${ASCEND_CANN_PACKAGE_PATH}/toolkit/tools/opbuild/op_build
      ${ARG_OUT_DIR}/libascend_all_ops.so ${ARG_OUT_DIR}
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(add_ops_compile_options op_type)
  cmake_parse_arguments(ARG "" "" "COMPUTE_UNIT;OPTIONS" ${ARGN})
  string(REPLACE ";" " " options "${ARG_OPTIONS}")
  file(APPEND ${ASCEND_AUTOGEN_PATH}/custom_compile_options.ini "${op_type} ${options}\n")
endfunction()

# One command per kernel, in a target that is not part of `all`.
function(add_kernels_compile)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/binary)
  add_custom_target(binary)
  foreach(unit IN LISTS ASCEND_COMPUTE_UNIT)
    file(STRINGS ${ASCEND_AUTOGEN_PATH}/operators.txt operators)
    foreach(operator IN LISTS operators)
      add_custom_target(${operator}_${unit}
        COMMAND ${ASCEND_PYTHON_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/util/compile_kernel.py
          ${CMAKE_SOURCE_DIR}/op_kernel/${operator}.cpp $<TARGET_FILE:cust_optiling>
          ${output}/${unit}/${operator} $(MAKE))
      add_dependencies(${operator}_${unit} cust_optiling)
      add_dependencies(binary ${operator}_${unit})
    endforeach()
    install(DIRECTORY ${output}/${unit}/
      DESTINATION ${vendor_folder}/op_impl/ai_core/tbe/kernel/${unit})
  endforeach()
endfunction()
