// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

#include "engine.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>

namespace ascendc_emulation {

namespace {

thread_local Engine *current_engine = nullptr;
thread_local Core *current_core = nullptr;

// Documented range of a cross-core flag's counter.
constexpr size_t kMaxFlagCount = 15;
constexpr int kMaxNamedCores = 6;

SnapshotPtr JoinSnapshots(const std::vector<SnapshotPtr> &parts) {
  auto joined = std::make_shared<Snapshot>(*parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    for (size_t t = 0; t < joined->times.size(); ++t) {
      joined->times[t] = std::max(joined->times[t], parts[i]->times[t]);
    }
  }
  return joined;
}

}  // namespace

std::string FormatList(const char *format, va_list arguments) {
  char buffer[1024];
  std::vsnprintf(buffer, sizeof(buffer), format, arguments);
  return buffer;
}

std::string Format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = FormatList(format, arguments);
  va_end(arguments);
  return text;
}

Engine &Engine::Current() {
  if (current_engine == nullptr) throw std::logic_error("Ascend C call outside of a launch");
  return *current_engine;
}

Core &Engine::CurrentCore() {
  if (current_core == nullptr) throw std::logic_error("Ascend C call outside of a launch");
  return *current_core;
}

bool Engine::HasCurrentCore() { return current_core != nullptr; }

void Engine::SetComplaint(const char *rule, const std::string &message) {
  if (is_ending_) return;
  is_ending_ = true;
  rule_ = rule;
  complaint_ = message;
}

void Engine::Fail(const char *rule, const std::string &detail) {
  if (current_core != nullptr) {
    const Core &core = *current_core;
    const uint32_t time = current_core->pipe(core.current_pipe).time;
    SetComplaint(
        rule, Format("%s, pipe %s, %s #%u: %s: %s", core.Name().c_str(),
                     PipeName(core.current_pipe), core.current_name, time, rule, detail.c_str()));
  } else {
    SetComplaint(rule, std::string(rule) + ": " + detail);
  }
  throw LaunchFailure{};
}

Report Engine::Launch(const Kernel &kernel) {
  current_engine = this;
  is_ending_ = false;
  complaint_.clear();
  rule_.clear();
  for (const std::unique_ptr<GmBuffer> &buffer : gm_.buffers()) buffer->BeginLaunch();
  MakeCores(kernel);
  RunCores();
  Report report;
  report.complaint = complaint_;
  report.rule = rule_;
  for (const std::unique_ptr<GmBuffer> &buffer : gm_.buffers()) {
    report.counters.buffers[buffer->name()] = buffer->traffic();
  }
  for (const std::unique_ptr<Core> &core : cores_) report.counters.cores.push_back(core->counters);
  cores_.clear();
  current_engine = nullptr;
  return report;
}

void Engine::MakeCores(const Kernel &kernel) {
  cores_.clear();
  for (auto &kind : all_groups_) kind.fill({});
  pair_groups_.assign(static_cast<size_t>(config_.num_ai_cores), {});
  cube_groups_.assign(static_cast<size_t>(config_.num_ai_cores), {});
  random_.seed(config_.schedule_seed);
  next_core_ = 0;
  for (int ai_core = 0; ai_core < config_.num_ai_cores; ++ai_core) {
    for (int member = 0; member < 3; ++member) {
      const bool is_cube = member == 0;
      cores_.push_back(std::make_unique<Core>(static_cast<int>(cores_.size()), ai_core,
                                              is_cube ? 0 : member - 1, is_cube, config_));
      Core *core = cores_.back().get();
      const std::function<void()> &body = is_cube ? kernel.cube : kernel.vector;
      core->fibre = std::make_unique<Fibre>([this, core, &body] {
        core->has_started = true;
        try {
          if (body) body();
          CheckCoreEnd(core);
        } catch (const LaunchFailure &) {
          // The complaint is recorded.
        } catch (const std::exception &error) {
          SetComplaint("exception", core->Name() + ": exception: " + error.what());
        }
      });
    }
  }
}

Core *Engine::PickRunnable() {
  const auto is_runnable = [](const Core &core) {
    return !core.fibre->is_finished() &&
           (core.waiting_for_flag < 0 ||
            !core.flags[static_cast<size_t>(core.waiting_for_flag)].empty());
  };
  const size_t count = cores_.size();
  const size_t first = config_.schedule_seed == 0 ? next_core_ : random_() % count;
  for (size_t i = 0; i < count; ++i) {
    Core *core = cores_[(first + i) % count].get();
    if (is_runnable(*core)) {
      next_core_ = (first + i) % count;
      return core;
    }
  }
  return nullptr;
}

void Engine::RunCores() {
  const auto resume = [](Core *core) {
    current_core = core;
    core->fibre->Resume();
    current_core = nullptr;
  };
  while (!is_ending_) {
    Core *core = PickRunnable();
    if (core == nullptr) break;
    resume(core);
  }
  if (!is_ending_) {
    const bool all_finished =
        std::all_of(cores_.begin(), cores_.end(),
                    [](const std::unique_ptr<Core> &core) { return core->fibre->is_finished(); });
    if (all_finished) {
      CheckLaunchEnd();
    } else {
      ReportDeadlock();
    }
  }
  // Let every started fibre unwind its stack; the place where it waits throws now.
  for (const std::unique_ptr<Core> &core : cores_) {
    if (is_ending_ && core->has_started && !core->fibre->is_finished()) resume(core.get());
  }
}

void Engine::ReportDeadlock() {
  std::string text;
  int named = 0;
  for (const std::unique_ptr<Core> &core : cores_) {
    if (core->fibre->is_finished()) continue;
    if (++named > kMaxNamedCores) {
      text += ", ...";
      break;
    }
    text += Format("%s%s waits for cross-core flag %d", named == 1 ? "" : ", ",
                   core->Name().c_str(), core->waiting_for_flag);
  }
  SetComplaint("dead lock", "dead lock: " + text);
}

void Engine::CheckCoreEnd(Core *core) {
  core->Issue(Pipe::kS, "end of kernel");
  for (size_t source = 0; source < kNumPipes; ++source) {
    for (size_t target = 0; target < kNumPipes; ++target) {
      for (int id = 0; id < kNumEventIds; ++id) {
        if (!core->event(static_cast<Pipe>(source), static_cast<Pipe>(target), id).is_set) continue;
        Fail("event left set",
             Format("event %s_%s id %d was set and never waited for",
                    PipeName(static_cast<Pipe>(source)), PipeName(static_cast<Pipe>(target)), id));
      }
    }
  }
  if (core->registers.atomic_mode != AtomicMode::kNone) {
    Fail("register left set", "atomic writes are still on: SetAtomicNone is missing");
  }
  if (!core->dirty_lines.empty()) {
    Fail("scalar cache",
         "a scalar write to GM is still in the cache: DataCacheCleanAndInvalid is "
         "missing");
  }
  if (core->registers.is_counter_mode) {
    Fail("register left set", "the mask is still in counter mode: SetMaskNorm is missing");
  }
}

void Engine::CheckLaunchEnd() {
  for (const std::unique_ptr<Core> &core : cores_) {
    for (size_t flag = 0; flag < core->flags.size(); ++flag) {
      if (core->flags[flag].empty()) continue;
      SetComplaint("flag left set",
                   Format("%s: flag left set: cross-core flag %zu ends with a count of %zu",
                          core->Name().c_str(), flag, core->flags[flag].size()));
      return;
    }
  }
  const auto has_arrivals = [](const FlagGroup &group) {
    return std::any_of(group.arrived.begin(), group.arrived.end(),
                       [](const std::deque<SnapshotPtr> &queue) { return !queue.empty(); });
  };
  for (size_t flag = 0; flag < kNumCrossCoreFlags; ++flag) {
    bool is_partial = has_arrivals(all_groups_[0][flag]) || has_arrivals(all_groups_[1][flag]);
    for (size_t i = 0; i < cube_groups_.size(); ++i) {
      is_partial |= has_arrivals(cube_groups_[i][flag]) || has_arrivals(pair_groups_[i][flag]);
    }
    if (is_partial) {
      SetComplaint("flag left set",
                   Format("flag left set: cross-core flag %zu was set by some cores of a group and "
                          "not by the others",
                          flag));
      return;
    }
  }
}

void Engine::WaitForFlag(Core *core, int flag_id) {
  auto &counts = core->flags[static_cast<size_t>(flag_id)];
  while (counts.empty()) {
    core->waiting_for_flag = flag_id;
    core->fibre->Yield();
    if (is_ending_) throw LaunchFailure{};
  }
  core->waiting_for_flag = -1;
}

void Engine::MaybeSwitch(Core *core) {
  if (config_.schedule_seed == 0 || random_() % 2 == 0) return;
  core->fibre->Yield();
  if (is_ending_) throw LaunchFailure{};
}

void Engine::AddCount(Core *core, int flag_id, const SnapshotPtr &published) {
  auto &counts = core->flags[static_cast<size_t>(flag_id)];
  counts.push_back(published);
  if (counts.size() > kMaxFlagCount) {
    Fail("flag counter", Format("cross-core flag %d of %s counts %zu, the counter holds %zu",
                                flag_id, core->Name().c_str(), counts.size(), kMaxFlagCount));
  }
}

void Engine::Arrive(FlagGroup *group, size_t member, size_t num_members, int flag_id,
                    const SnapshotPtr &published, const std::vector<Core *> &receivers) {
  group->arrived.resize(num_members);
  group->arrived[member].push_back(published);
  if (group->arrived[member].size() > kMaxFlagCount) {
    Fail("flag counter", Format("cross-core flag %d was set %zu times while its partners did not "
                                "set it",
                                flag_id, group->arrived[member].size()));
  }
  const bool is_complete =
      std::all_of(group->arrived.begin(), group->arrived.end(),
                  [](const std::deque<SnapshotPtr> &queue) { return !queue.empty(); });
  if (!is_complete) return;
  std::vector<SnapshotPtr> parts;
  for (std::deque<SnapshotPtr> &queue : group->arrived) {
    parts.push_back(queue.front());
    queue.pop_front();
  }
  const SnapshotPtr joined = JoinSnapshots(parts);
  for (Core *receiver : receivers) AddCount(receiver, flag_id, joined);
}

void Engine::PublishFlag(Core *core, int mode, int flag_id, const SnapshotPtr &published) {
  const size_t flag = static_cast<size_t>(flag_id);
  const size_t ai_core = static_cast<size_t>(core->ai_core);
  if (mode == 0) {
    std::vector<Core *> members;
    size_t own_position = 0;
    for (const std::unique_ptr<Core> &other : cores_) {
      if (other->is_cube != core->is_cube) continue;
      if (other.get() == core) own_position = members.size();
      members.push_back(other.get());
    }
    Arrive(&all_groups_[core->is_cube ? 0 : 1][flag], own_position, members.size(), flag_id,
           published, members);
  } else if (mode == 1) {
    if (core->is_cube) Fail("cross-core mode", "mode 1 joins vector cores; this is a cube core");
    Arrive(&pair_groups_[ai_core][flag], static_cast<size_t>(core->sub_block), 2, flag_id,
           published, {VectorCore(core->ai_core, 0), VectorCore(core->ai_core, 1)});
  } else if (core->is_cube) {
    AddCount(VectorCore(core->ai_core, 0), flag_id, published);
    AddCount(VectorCore(core->ai_core, 1), flag_id, published);
  } else {
    Arrive(&cube_groups_[ai_core][flag], static_cast<size_t>(core->sub_block), 2, flag_id,
           published, {CubeCore(core->ai_core)});
  }
}

}  // namespace ascendc_emulation
