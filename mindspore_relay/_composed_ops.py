# Copyright 2026 The mindspore_relay Authors
# SPDX-License-Identifier: Apache-2.0
"""reshape_and_cache and merge_attention_states, composed of MindSpore's own operators.

For Ascend, where the package has no kernel of its own for the two. The functions are called by
those of operators.py, which have checked the Python types; they run in PyNative mode and in graphs.
"""

from mindspore import dtype as mstype
from mindspore import ops

from mindspore_relay._arguments import is_in_graph
from mindspore_relay.bfloat16 import to_numpy

_INFINITY = float("inf")


def reshape_and_cache(op, key, value, key_cache, value_cache, slot_mapping):
    """Writes the tokens; returns the status tensor.

    Every token writes what the last token of its slot has, and one without a slot what some token
    with a slot has, to that one's place: then it does not matter in which order the writes happen,
    and nothing depends on the values of slot_mapping but the values that are written.
    """
    check_cache_arguments(
        op,
        (key.shape, value.shape, key_cache.shape, value_cache.shape, slot_mapping.shape),
        slot_mapping.dtype,
    )
    num_slots = key_cache.shape[0] * key_cache.shape[1]
    block_size = key_cache.shape[1]
    if not is_in_graph():
        check_slots(op, to_numpy(slot_mapping), num_slots)
    num_tokens = slot_mapping.shape[0]
    status = ops.zeros((1,), mstype.int32)
    if num_tokens == 0 or num_slots == 0:
        return status
    tokens = ops.arange(num_tokens).astype(mstype.int32)
    is_written = ops.logical_and(slot_mapping >= 0, slot_mapping < num_slots)
    # The last token of each slot; tokens without one are in a slot of their own, behind the others.
    slots = ops.where(is_written, slot_mapping, num_slots).astype(mstype.int32)
    last_of_slot = ops.unsorted_segment_max(tokens, slots, num_slots + 1)
    # A token that is written. If there is none, slot 0 is written with what it holds.
    is_any_written = is_written.any()
    some_token = ops.where(is_written, tokens, -1).max()
    source = ops.where(is_written, last_of_slot[slots], ops.maximum(some_token, 0))
    target = ops.where(is_any_written, slots[source], 0).astype(mstype.int32)
    indices = ops.stack((target // block_size, target % block_size), axis=1)
    for new, cache in ((key, key_cache), (value, value_cache)):
        place_shape = cache.shape[2:]
        rows = new.astype(cache.dtype).reshape((num_tokens, *place_shape))[source]
        held = cache[0, 0].reshape((1, *place_shape))
        ops.scatter_nd_update(cache, indices, ops.where(is_any_written, rows, held))
    return status


@ops.constexpr
def check_cache_arguments(op, shapes, slot_dtype):
    """Shapes of key, value, key_cache, value_cache and slot_mapping."""
    key, value, key_cache, value_cache, slot_mapping = shapes
    if slot_dtype != mstype.int32 or len(slot_mapping) != 1:
        raise RuntimeError(
            f"{op}: slot_mapping must be int32 with one axis, got {slot_dtype} {slot_mapping}"
        )
    if key_cache[:2] != value_cache[:2]:
        raise RuntimeError(
            f"{op}: key_cache and value_cache must have the same blocks, "
            f"got {key_cache} and {value_cache}"
        )
    for name, tokens, cache in (("key", key, key_cache), ("value", value, value_cache)):
        if len(cache) not in (3, 4) or len(tokens) not in (2, 3):
            raise RuntimeError(
                f"{op}: {name} must have rank 2 or 3 and its cache 3 or 4, got {tokens}, {cache}"
            )
        if tokens[0] != slot_mapping[0] or _product(tokens[1:]) != _product(cache[2:]):
            raise RuntimeError(
                f"{op}: {name} must have {slot_mapping[0]} tokens (slot_mapping) of "
                f"{_product(cache[2:])} elements (its cache), got {tokens}"
            )


def check_slots(op, slot_mapping, num_slots):
    """RuntimeError for a slot that is neither -1 nor in the caches."""
    for index, slot in enumerate(slot_mapping.tolist()):
        if not -1 <= slot < num_slots:
            raise RuntimeError(
                f"{op}: slot_mapping[{index}] must be in [-1, {num_slots}), got {slot}"
            )


def merge_attention_states(op, out_a, lse_a, out_b, lse_b):
    """out and lse; see operators.merge_attention_states."""
    check_merge_arguments(
        op,
        (out_a.shape, lse_a.shape, out_b.shape, lse_b.shape),
        (out_a.dtype, lse_a.dtype, out_b.dtype, lse_b.dtype),
    )
    lse_a = ops.where(lse_a == _INFINITY, -_INFINITY, lse_a)
    lse_b = ops.where(lse_b == _INFINITY, -_INFINITY, lse_b)
    # Not ops.maximum: of a NaN and a number it may be the number.
    lse_max = ops.where(lse_a > lse_b, lse_a, lse_b)
    are_both_empty = lse_max == -_INFINITY
    finite_max = ops.where(are_both_empty, 0.0, lse_max)
    exp_a = ops.exp(lse_a - finite_max)
    exp_b = ops.exp(lse_b - finite_max)
    exp_sum = ops.where(are_both_empty, 1.0, exp_a + exp_b)
    by_head = (*lse_a.shape, -1)
    # Cast first: MindSpore 2.8 has no zeros_like of bfloat16 on the CPU, whatever its result is.
    out = ops.zeros_like(out_a.astype(mstype.float32).reshape(by_head))
    for part, part_lse, part_exp in ((out_a, lse_a, exp_a), (out_b, lse_b, exp_b)):
        rows = part.astype(mstype.float32).reshape(by_head)
        weight = (part_exp / exp_sum).expand_dims(-1)
        # What an empty part holds is not looked at: 0 * NaN would be NaN.
        is_empty = (part_lse == -_INFINITY).expand_dims(-1)
        out = out + ops.where(is_empty, 0.0, weight * rows)
    lse = ops.where(are_both_empty, -_INFINITY, finite_max + ops.log(exp_sum))
    return out.reshape(out_a.shape).astype(out_a.dtype), lse


@ops.constexpr
def check_merge_arguments(op, shapes, dtypes):
    """Shapes and dtypes of out_a, lse_a, out_b and lse_b."""
    out_a, lse_a, out_b, lse_b = shapes
    if out_a != out_b or dtypes[0] != dtypes[2]:
        raise RuntimeError(
            f"{op}: out_a and out_b must have one shape and dtype, "
            f"got {dtypes[0]} {out_a} and {dtypes[2]} {out_b}"
        )
    if lse_a != lse_b or len(lse_a) != 2 or dtypes[1] != dtypes[3] or dtypes[1] != mstype.float32:
        raise RuntimeError(
            f"{op}: lse_a and lse_b must be float32 of one shape (num_tokens, head_num), "
            f"got {dtypes[1]} {lse_a} and {dtypes[3]} {lse_b}"
        )
    is_apart = len(out_a) == 3 and out_a[:2] == lse_a
    is_flat = len(out_a) == 2 and out_a[0] == lse_a[0] and out_a[1] % max(lse_a[1], 1) == 0
    if not is_apart and not is_flat:
        raise RuntimeError(
            f"{op}: out_a must be (num_tokens, head_num, head_size) or (num_tokens, head_num * "
            f"head_size), got {out_a} with lse {lse_a}"
        )


def _product(dimensions):
    product = 1
    for dimension in dimensions:
        product *= dimension
    return product
