"""Which names of ranges and functions say that a batch is loaded."""

from __future__ import annotations

import pytest

from holotrace.diagnosis.classes import INPUT, named

LOADING = """
data_loading; data loading; load_data; loading_data; dataload; data_load; ## load_batch ##; read_batch; fetch_batch
get_data; input_pipeline; data_wait; wait_for_data; DataLoading; ## dataload ##; next_data; collate_fn; data; ## data ##
enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__; train.py(10): load_data; my/dataset.py(3): __getitem__
data_iter; get_batch; next_minibatch; train.py(42): get_next_batch; getBatch; trainer.py(3): _get_batch; next_sample
load_microbatch
"""
OTHERS = """
get_data_parallel_rank; get_data_parallel_world_size; get_batch_size; data_ptr; get_data_ptr; batch_norm
aten::native_batch_norm; aten::data; DataParallel.forward; DistributedDataParallel.forward; sampler.py(3): sample
megatron/core/parallel_state.py(10): get_data_parallel_group; read_metrics; dataclasses.py(3): x; execute_model
update_batch_stats; vllm/v1/worker/gpu_input_batch.py(10): refresh; metadata_iter; get_metadata; load_metadata; forward
model_loader/x.py(3): load_model; get_sampled; schedule_batch.py(3): get_model_worker_batch; run_batch; data_parallel
scheduler.py(3): get_next_batch_to_run; load_state_dict
"""


def names(listed: str) -> list[str]:
    return [name.strip() for line in listed.strip().splitlines() for name in line.split(";")]


@pytest.mark.parametrize("name", names(LOADING))
def test_a_name_of_loading_is_input(name: str) -> None:
    assert named(name) == INPUT


@pytest.mark.parametrize("name", names(OTHERS))
def test_names_that_only_look_like_it_are_not(name: str) -> None:
    assert named(name) != INPUT
