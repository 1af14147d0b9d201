// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Stand-in for the toolkit's platform object; see op_def_registry.h beside it.

#ifndef MINDSPORE_RELAY_TESTS_FAKE_TOOLKIT_PLATFORM_ASCENDC_H_
#define MINDSPORE_RELAY_TESTS_FAKE_TOOLKIT_PLATFORM_ASCENDC_H_

#include "register/op_def_registry.h"

namespace platform_ascendc {

class PlatformAscendC {
 public:
  explicit PlatformAscendC(fe::PlatFormInfos *infos) : infos_(infos) {}
  uint32_t GetCoreNumAic() const { return infos_->num_cube_cores; }
  uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }

 private:
  fe::PlatFormInfos *infos_;
};

}  // namespace platform_ascendc

#endif  // MINDSPORE_RELAY_TESTS_FAKE_TOOLKIT_PLATFORM_ASCENDC_H_
