// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "ascendc_emulation/kernel_module.h"

#include <dlfcn.h>

#include <stdexcept>

namespace ascendc_emulation {

KernelModule::KernelModule(const std::string &path) : path_(path) {
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char *reason = dlerror();
    throw std::runtime_error("KernelModule: " + std::string(reason == nullptr ? path : reason));
  }
}

KernelModule::~KernelModule() {
  if (handle_ != nullptr) dlclose(handle_);
}

void *KernelModule::Find(const std::string &name) const {
  void *entry = dlsym(handle_, name.c_str());
  if (entry == nullptr) throw std::runtime_error("KernelModule: " + path_ + " has no " + name);
  return entry;
}

}  // namespace ascendc_emulation
