"""The frozen description of a training run; knows nothing of flags or tasks."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the loop needs to know.

    The first group decides what is computed: a run is resumed only under the same
    values. The second decides where and how, and may change between two starts.
    """

    # What is computed.
    num_train_steps: int
    learning_rate: float = 5e-5
    num_warmup_steps: int = 0
    schedule: str = "linear"
    smooth_warmup: bool = False
    train_seconds: float = 0.0  # stop, and run the schedule, by time; 0: by steps
    optimizer: str = "adamw"
    bias_correction: bool | None = None  # None: the optimizer's own way
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0  # 0: no clipping
    clip_before_allreduce: bool = False
    gradient_accumulation_steps: int = 1
    layerwise_decay: float = 1.0
    frozen_layers: int = 0  # embeddings and this many lowest layers
    frozen_variables: str = ""  # regular expression searched in variable names
    ema_decay: float = 0.0  # 0: no average of the weights is kept
    seed: int = 0
    dtype: str = "float32"
    recompute: bool = False

    # Where and how.
    output_dir: str = ""
    init_checkpoint: str | None = None
    xla: bool = False
    save_checkpoints_steps: int = 1000
    iterations_per_loop: int = 1000
    keep_checkpoints: int = 5
    log_steps: int = 0  # 0: a hundredth of the run, at most every 100 steps
    eval_steps: int = 0  # 0: no evaluation while training
    best_metric: str = ""  # "" or a metric's name, with a leading "-": less is better
    early_stopping: int = 0  # evaluations without improvement; 0: never
    profile_steps: tuple[int, int] | None = None

    @property
    def dtype_policy(self):
        """The Keras dtype policy: variables are float32 under each of the three."""
        return "float32" if self.dtype == "float32" else f"mixed_{self.dtype}"

    @property
    def steps_between_logs(self):
        return self.log_steps or max(1, min(100, self.num_train_steps // 100))
