"""Which ranks and steps a cause is of, in words."""

from __future__ import annotations

import pytest

from holotrace.diagnosis.words import classes, wording
from holotrace.diagnosis.words.advice import advice
from holotrace.diagnosis.words.class_texts import CLASSES
from holotrace.diagnosis.words.texts_on_host import OF_HOSTS


def test_steps_and_ranks_in_many_pieces_are_counted_and_not_listed() -> None:
    known = tuple(range(1_000))
    steps = tuple(step for step in known if step % 15 > 2 and step > 30)
    assert wording.when(steps, known) == f", in {len(steps)} of 1,000 steps from step 33 to step 999"
    assert wording.whose(tuple(range(0, 64, 3)), 64) == "22 of 64 ranks (0, 3, 6, 9, 12, 15, ...)"


def test_few_pieces_are_listed() -> None:
    assert wording.when((1, 2, 5), tuple(range(9))) == ", in steps 1-2, 5"


@pytest.mark.parametrize(("steps", "told"), [((7, 8), ", since step 7"), ((8,), ", in step 8")])
def test_one_step_begins_nothing(steps: tuple[int, ...], told: str) -> None:
    assert wording.when(steps, tuple(range(9))) == told
    assert wording.whose((1, 2, 5), 64) == "ranks 1-2, 5"


@pytest.mark.parametrize(
    ("cause", "name", "said"),
    [
        (classes.EXPOSED, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "TrainPipelineSparseDist"),
        (classes.LAUNCH, "execute_context_1(888_788544)_generation_0(0)", "enforce-eager"),
        (classes.LAUNCH, "forward", "torch.compile"),
        (classes.SYNCHRONIZATION, "vllm/v1/engine/core.py(30): step", "async-scheduling"),
        # Nobody can move the backward pass out of a step, nor an operator that initialises the device.
        (classes.FUNCTION, "## backward ##", "with_stack=True"),
        (classes.FUNCTION, "aten::empty", "warm up"),
        (classes.FUNCTION, "train.py(7): backward_logger", "Move this work out of the step"),
    ],
)
def test_advice_is_of_the_kind_of_job(cause: str, name: str, said: str) -> None:
    assert said in advice(CLASSES[cause], name)


def test_advice_for_jobs_on_hosts_is_of_the_kind_of_job_too() -> None:
    assert "smaller buckets" in advice(OF_HOSTS[classes.EXPOSED], "gloo:all_reduce")


def test_functions_of_bindings_are_named_without_what_these_call_their_types() -> None:
    record = "pybind11_builtins.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1"
    assert wording.short(f"<built-in method size of {record} object at 0x7f75fea66a50>") == "<built-in method size>"
    assert (
        wording.short("<built-in method zero_ of Tensor object at 0x7f75>")
        == "<built-in method zero_ of Tensor object>"
    )


def test_functions_that_jax_recorded_are_named_before_their_place() -> None:
    assert wording.short("$train.py:7 augment") == "augment (train.py:7)"
    assert wording.short("code that calls $<unknown> copy") == "code that calls copy"


def test_functions_that_jax_recorded_tell_what_they_do_by_the_same_names() -> None:
    """What a JAX program computed in an evaluation was told as work of its steps."""
    assert classes.named("$train.py:6 evaluate") == classes.named("train.py(6): evaluate") == classes.EVALUATION
    assert classes.named("$evaluate.py:6 train_step") is None


def test_what_all_hosts_do_in_a_range_may_be_its_own_code() -> None:
    """Adam on the CPU, of which no call is recorded, was told to be garbage collection or another process."""
    step = "Optimizer.step#DeepSpeedZeroOptimizer.step"
    assert "(its own code, garbage" in wording.pauses(step, is_launch=False, is_of_all=True)
    assert "(garbage" in wording.pauses(step, is_launch=False)
    assert "(garbage" in wording.pauses("", is_launch=False, is_of_all=True)
