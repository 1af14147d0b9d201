// Copyright 2026 The mindspore_relay Authors
// SPDX-License-Identifier: Apache-2.0

// Runs one vector instruction on tensors in UB and brings its result back.
#ifndef ASCENDC_EMULATION_TESTS_UB_RUN_H_
#define ASCENDC_EMULATION_TESTS_UB_RUN_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "test_support.h"

namespace emulation_test {

constexpr uint32_t kUbBytes = 64 * 1024;

// Runs body with UB tensors that hold the given inputs and returns what the result tensor holds.
// Tensors: result at byte 0, inputs at 16 KB, 32 KB, 48 KB.
template <typename Result, typename Input>
class UbRun {
 public:
  using Body = std::function<void(AscendC::LocalTensor<Result>, AscendC::LocalTensor<Input>,
                                  AscendC::LocalTensor<Input>, AscendC::LocalTensor<Input>)>;

  UbRun(std::vector<Input> first, std::vector<Input> second, size_t num_results)
      : inputs_{std::move(first), std::move(second)}, output_(num_results) {}

  // initial fills the result tensor before body runs.
  std::vector<Result> Run(const Body &body, Result initial = Result{}) {
    ascendc_emulation::Device device(1);
    for (size_t i = 0; i < 2; ++i) {
      inputs_[i].resize((inputs_[i].size() + 15) / 16 * 16);
      if (!inputs_[i].empty()) {
        device.RegisterInput("input" + std::to_string(i), inputs_[i].data(),
                             inputs_[i].size() * sizeof(Input));
      }
    }
    device.RegisterOutput("output", output_.data(), output_.size() * sizeof(Result));
    CHECK_CLEAN(RunVector(&device, [&] {
      AscendC::TPipe pipe;
      AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
      pipe.InitBuffer(buffer, kUbBytes);
      auto result = buffer.GetWithOffset<Result>(16 * 1024 / sizeof(Result), 0);
      AscendC::LocalTensor<Input> in[3];
      for (uint32_t i = 0; i < 3; ++i) {
        in[i] = buffer.GetWithOffset<Input>(16 * 1024 / sizeof(Input), (i + 1) * 16 * 1024);
      }
      for (size_t i = 0; i < 2; ++i) {
        if (inputs_[i].empty()) continue;
        AscendC::DataCopy(in[i], Global(inputs_[i]), static_cast<uint32_t>(inputs_[i].size()));
      }
      AscendC::Duplicate(result, initial, static_cast<int32_t>(output_.size()));
      AscendC::PipeBarrier<PIPE_ALL>();
      body(result, in[0], in[1], in[2]);
      AscendC::PipeBarrier<PIPE_ALL>();
      AscendC::DataCopyPad(Global(output_), result,
                           AscendC::DataCopyExtParams(
                               1, static_cast<uint32_t>(output_.size() * sizeof(Result)), 0, 0, 0));
    }));
    return output_;
  }

 private:
  std::vector<Input> inputs_[2];
  std::vector<Result> output_;
};

}  // namespace emulation_test

#endif  // ASCENDC_EMULATION_TESTS_UB_RUN_H_
