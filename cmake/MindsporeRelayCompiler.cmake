# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
#
# mindspore_relay_compile_options(TARGET): how every C++ file of the project is compiled.
# mindspore_relay_isa_sources(ISA ...):    files that need an instruction set of their own.
include_guard(GLOBAL)
include(CheckCXXCompilerFlag)

function(mindspore_relay_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_17)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra
    # VisitDType and its like have no default branch: a missing case must not compile.
    -Werror=switch
    # A product and a sum are one rounding only where a kernel says fma. Left to the compiler, the
    # portable kernels would give other bits on aarch64 than on x86-64, with clang than with gcc.
    -ffp-contract=off
    -fstack-protector-strong
    # No folder of the build machine in the library: the same sources give the same bytes anywhere.
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
    $<$<CONFIG:Release>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>)
  if(MINDSPORE_RELAY_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(MINDSPORE_RELAY_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${MINDSPORE_RELAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${MINDSPORE_RELAY_SANITIZE})
  endif()
endfunction()

# mindspore_relay_isa_sources(avx2 PROCESSORS x86_64 FLAGS -mavx2 -mfma SOURCES tile_kernels_avx2.cc)
#
# Compiles SOURCES, and only them, with FLAGS, and defines MINDSPORE_RELAY_HAVE_<ISA> for all files.
# Does nothing on other processors, and nothing but a message when the compiler lacks a flag. The
# other files never see the flags: the library must start on the oldest processor.
function(mindspore_relay_isa_sources isa)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PROCESSORS;FLAGS;SOURCES")
  if(MINDSPORE_RELAY_PORTABLE_ONLY OR NOT CMAKE_SYSTEM_PROCESSOR IN_LIST arg_PROCESSORS)
    return()
  endif()
  string(TOUPPER ${isa} isa_upper)
  list(JOIN arg_FLAGS " " flags)
  check_cxx_compiler_flag("${flags}" MINDSPORE_RELAY_COMPILER_HAS_${isa_upper})
  if(NOT MINDSPORE_RELAY_COMPILER_HAS_${isa_upper})
    message(STATUS "mindspore_relay: ${isa} kernels left out: the compiler does not know ${flags}")
    return()
  endif()
  target_sources(mindspore_relay_objects PRIVATE ${arg_SOURCES})
  target_compile_definitions(mindspore_relay_objects PRIVATE MINDSPORE_RELAY_HAVE_${isa_upper}=1)
  set_source_files_properties(${arg_SOURCES}
    TARGET_DIRECTORY mindspore_relay_objects
    PROPERTIES COMPILE_OPTIONS "${arg_FLAGS}")
endfunction()
