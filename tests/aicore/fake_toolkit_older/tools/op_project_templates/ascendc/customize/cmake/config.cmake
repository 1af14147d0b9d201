# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0

foreach(variable
    vendor_name ASCEND_CANN_PACKAGE_PATH ASCEND_PYTHON_EXECUTABLE ASCEND_COMPUTE_UNIT
    ENABLE_SOURCE_PACKAGE ENABLE_BINARY_PACKAGE ENABLE_TEST ENABLE_CROSS_COMPILE
    ASCEND_PACK_SHARED_LIBRARY)
  file(APPEND ${CMAKE_BINARY_DIR}/settings.txt "${variable}=${${variable}}\n")
endforeach()
set(ASCEND_AUTOGEN_PATH ${CMAKE_BINARY_DIR}/autogen)
file(MAKE_DIRECTORY ${ASCEND_AUTOGEN_PATH})
file(WRITE ${ASCEND_AUTOGEN_PATH}/custom_compile_options.ini "")
set(vendor_folder packages/vendors/${vendor_name})
