# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0

add_library(intf_pub INTERFACE)
target_compile_options(intf_pub INTERFACE -fPIC $<$<COMPILE_LANGUAGE:CXX>:-std=c++11>)
target_compile_definitions(intf_pub INTERFACE _GLIBCXX_USE_CXX11_ABI=0)
target_include_directories(intf_pub INTERFACE ${ASCEND_CANN_PACKAGE_PATH}/include)
