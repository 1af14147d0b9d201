// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// One device: GM, and for each launch its cores and their scheduler.
#ifndef ASCENDC_EMULATION_SRC_ENGINE_H_
#define ASCENDC_EMULATION_SRC_ENGINE_H_

#include <array>
#include <cstdarg>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ascendc_emulation/device.h"
#include "core.h"
#include "global_memory.h"

namespace ascendc_emulation {

// Ends the fibre that throws it; the complaint is already in the engine.
struct LaunchFailure {};

class Engine {
 public:
  explicit Engine(const DeviceConfig &config) : config_(config) {}

  Report Launch(const Kernel &kernel);

  const DeviceConfig &config() const { return config_; }
  GlobalMemory &gm() { return gm_; }
  int num_ai_cores() const { return config_.num_ai_cores; }
  bool is_ending() const { return is_ending_; }
  Core *core(size_t index) { return cores_[index].get(); }

  [[noreturn]] void Fail(const char *rule, const std::string &detail);
  // Gives the other cores a chance; returns when flag_id of this core has a count.
  void WaitForFlag(Core *core, int flag_id);
  void MaybeSwitch(Core *core);
  void PublishFlag(Core *core, int mode, int flag_id, const SnapshotPtr &published);

  static Engine &Current();
  static Core &CurrentCore();
  static bool HasCurrentCore();

 private:
  // Counts of setters that still wait for their partners: one queue for each member of a group.
  struct FlagGroup {
    std::vector<std::deque<SnapshotPtr>> arrived;
  };

  void MakeCores(const Kernel &kernel);
  void RunCores();
  Core *PickRunnable();
  void CheckCoreEnd(Core *core);
  void CheckLaunchEnd();
  void ReportDeadlock();
  void AddCount(Core *core, int flag_id, const SnapshotPtr &published);
  void Arrive(FlagGroup *group, size_t member, size_t num_members, int flag_id,
              const SnapshotPtr &published, const std::vector<Core *> &receivers);
  void SetComplaint(const char *rule, const std::string &message);
  Core *CubeCore(int ai_core) { return cores_[static_cast<size_t>(ai_core) * 3].get(); }
  Core *VectorCore(int ai_core, int sub) {
    return cores_[static_cast<size_t>(ai_core) * 3 + 1 + static_cast<size_t>(sub)].get();
  }

  DeviceConfig config_;
  GlobalMemory gm_;
  std::vector<std::unique_ptr<Core>> cores_;  // AI core by AI core: cube, vector 0, vector 1
  std::mt19937_64 random_;
  size_t next_core_ = 0;
  bool is_ending_ = false;
  std::string complaint_;
  std::string rule_;
  // Mode 0 by kind of core, modes 1 and 2 by AI core.
  std::array<std::array<FlagGroup, kNumCrossCoreFlags>, 2> all_groups_;
  std::vector<std::array<FlagGroup, kNumCrossCoreFlags>> pair_groups_;
  std::vector<std::array<FlagGroup, kNumCrossCoreFlags>> cube_groups_;
};

std::string Format(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string FormatList(const char *format, va_list arguments);

}  // namespace ascendc_emulation

#endif  // ASCENDC_EMULATION_SRC_ENGINE_H_
