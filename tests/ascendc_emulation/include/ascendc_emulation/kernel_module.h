// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// A kernel source compiled for one kind of core, as a shared module. The cube and the vector form
// of a source define the same names with different bodies, so they must never meet in one link
// unit.
#ifndef ASCENDC_EMULATION_KERNEL_MODULE_H_
#define ASCENDC_EMULATION_KERNEL_MODULE_H_

#include <string>

namespace ascendc_emulation {

class KernelModule {
 public:
  // Throws std::runtime_error when the module cannot be loaded.
  explicit KernelModule(const std::string &path);
  ~KernelModule();
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;

  // The extern "C" entry; throws std::runtime_error when the module has no such name.
  template <typename Function>
  Function *Entry(const std::string &name) const {
    return reinterpret_cast<Function *>(Find(name));
  }

 private:
  void *Find(const std::string &name) const;

  std::string path_;
  void *handle_ = nullptr;
};

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_KERNEL_MODULE_H_
