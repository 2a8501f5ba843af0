"""Which names of ranges and functions say what goes on in them."""

from __future__ import annotations

import pytest

from holotrace.diagnosis.words.classes import (
    CHECKPOINT,
    COLLECTION,
    COMPILATION,
    EVALUATION,
    FUNCTION,
    INPUT,
    LOGGING,
    named,
)

TELLING = {
    INPUT: """
data_loading; data loading; load_data; loading_data; dataload; data_load; ## load_batch ##; read_batch
fetch_batch; get_data; input_pipeline; data_wait; wait_for_data; DataLoading; ## dataload ##; next_data
collate_fn; data; ## data ##; enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
train.py(10): load_data; my/dataset.py(3): __getitem__; data_iter; get_batch; next_minibatch
train.py(42): get_next_batch; getBatch; trainer.py(3): _get_batch; next_sample; load_microbatch
batch-generator; data-iterator; load-batch; train.py(3): make_batch; prepare_microbatches
""",
    CHECKPOINT: """
save_checkpoint; torch.save; torch/serialization.py(3): save; checkpointing; save_ckpt; write_ckpt; snapshot
train.py(3): save_snapshot; save_weights; save_model; model.py(3): save_weights; dump_checkpoint; ## save ##
saving; save; dcp.save; async_save; save_async; torch/distributed/checkpoint/state_dict_saver.py(3): save
trainer.py(3): _save_checkpoint; save_to_disk; export_checkpoint; safetensors/torch.py(3): save_file; checkpoint
ckpt; train.py(3): save_async; train.py(9): write_snapshot; dump_params; save-checkpoint
<built-in method write_record of torch._C.PyTorchFileWriter object at 0x7f3>
""",
    EVALUATION: """
evaluate; validation; validate; eval; run_eval; evaluation_loop; eval_step; val; valid; trainer.py(4): evaluate
do_validation; compute_validation_loss; log_eval_metrics
transformers/trainer.py(3): _evaluate; val_epoch; eval_epoch; validation_step; evaluate_model; eval_phase
""",
    LOGGING: """
logging; log; log_metrics; wandb.log; wandb/sdk/x.py(3): log; tensorboard; print; report; train.py(3): log_step
write_metrics; logger.py(3): info; dump_metrics; report_metrics; metrics; telemetry; log_training
update_progress_bar; tqdm; log_to_disk; flush_logs; log_scalars; logging/__init__.py(3): info
loguru/_logger.py(3): info; train.py(3): flush_metrics; wandb_log; mlflow_log; log-metrics; tensorboard_write
""",
    COMPILATION: """
torch.compile; dynamo; jit_compile; compile_kernel; autotune; torch._inductor
""",
    FUNCTION: """
torch/fx/traceback.py(415): format_stack
""",
    COLLECTION: """
gc; gc.collect; Python GC; python_gc; <built-in function collect>; garbage_collection; gc.py(3): run
megatron/training/utils.py(3): gc_collect; torch/_utils_internal.py(3): gc_callback; train.py(3): maybe_gc_collect
""",
}
SILENT = """
torch/_dynamo/eval_frame.py(791): compile_wrapper; cuda_graph_runner.py(941): _capture_graph
get_data_parallel_rank; get_data_parallel_world_size; get_batch_size; data_ptr; get_data_ptr; batch_norm
aten::native_batch_norm; aten::data; DataParallel.forward; DistributedDataParallel.forward
sampler.py(3): sample; megatron/core/parallel_state.py(10): get_data_parallel_group; read_metrics
dataclasses.py(3): x; execute_model; update_batch_stats; vllm/v1/worker/gpu_input_batch.py(10): refresh
metadata_iter; get_metadata; load_metadata; model_loader/x.py(3): load_model; get_sampled
schedule_batch.py(3): get_model_worker_batch; run_batch; data_parallel; scheduler.py(3): get_next_batch_to_run
aten::batch_norm_update_stats; save_for_backward; saved_tensors
torch/autograd/function.py(3): save_for_backward; update_weights; update_params; aten::_foreach_add_
train.py(3): update_parameters; optimizer.py(3): step; all_reduce_metrics; compute_metrics; CompiledFunction
Torch-Compiled Region: 0/0; CompiledFunctionBackward; valid_mask; is_valid; interval; validate_args; log_softmax
torch/distributions/distribution.py(290): _validate_sample
make_batch_norm; aten::_log_softmax; aten::log; logits; logit_processor; sample_logits; build_graph; graph_replay
cudaGraphLaunch; autograd::engine::evaluate_function: MulBackward0; print_backward; dialog; catalog; progressive
summary_block; report_generation; nn.Module: Logger_0; model.py(3): forward; send_tensor; push_grads
transformers/modeling_layers.py(89): forward_with_checkpointing; train.py(3): checkpointed_forward
megatron/core/transformer/transformer_block.py(3): checkpoint_handler; jax/_src/ad_checkpoint.py(3): fun_remat
transformers/trainer.py(3): _maybe_log_save_evaluate; save_and_evaluate; eval_and_save; log_and_checkpoint
torch/_compile.py(42): inner; stable_baselines3/common/policies.py(719): evaluate_actions
linear_operator/operators/added_diag_linear_operator.py(207): evaluate_kernel; model.py(3): evaluate_polynomial
PIL/Image.py(2593): save; dist-packages/matplotlib/figure.py(3): save
update_state; write_kv_cache; reshape_and_cache; export_blocks; saver_attention; load_weights; fetch_weights
Optimizer.step#AdamW.step; ProfilerStep#3; gradient_checkpointing; metrics.py(3): compute; eval_frame.py(3): _fn
torch/_dynamo/eval_frame.py(838): _fn; val_to_int; torch/nn/modules/module.py(3): eval; capture_graph_inputs
forward-backward; forward-compute; backward-compute; optimizer-inner-step; params-all-gather; embedding-grads-all-reduce
weights_update; dump_kv; snapshot_kv_blocks; forward; models/gcn.py(3): forward; agc_clip; aten::gcd
"""


def names(listed: str) -> list[str]:
    return [name.strip() for line in listed.strip().splitlines() for name in line.split(";")]


@pytest.mark.parametrize(("cause", "name"), [(cause, name) for cause, told in TELLING.items() for name in names(told)])
def test_a_name_tells_what_goes_on(cause: str, name: str) -> None:
    assert named(name) == cause


@pytest.mark.parametrize("name", names(SILENT))
def test_names_that_only_look_like_it_tell_nothing(name: str) -> None:
    assert named(name) is None
