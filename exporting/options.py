"""What the commands that use a trained model have in common."""

import dataclasses

from absl import flags

TASKS = (
    "classifier",
    "squad",
    "ner",
    "multiple_choice",
    "masked_lm",
    "encoder",
)


@dataclasses.dataclass(frozen=True)
class Options:
    """How a trained model is opened; the names are those of the flags.

    None stands for what the folder says, or a value that fits the task.
    """

    task: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int | None = None
    null_score_diff_threshold: float | None = None
    max_tokens: int = 0
    top_k: int = 5
    dtype: str = "float32"


def define_flags():
    """Defines a flag for each field of `Options`."""
    flags.DEFINE_enum(
        "task",
        None,
        TASKS,
        "What to make of the model; none: what it was trained for. Any is an encoder, "
        "too.",
    )
    flags.DEFINE_string(
        "vocab_file", None, "The vocabulary; none: vocab.txt in the folder."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Whether to lower-case texts; none: as the folder says, and the vocabulary "
        "where it doesn't.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Most tokens in a row that is made of texts; none: as in the training, or all "
        "positions of a model folder.",
        lower_bound=4,
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "For questions: null_score less score above which nothing is answered, also of "
        "a model not known to be of SQuAD 2.0; none: that of the last evaluation.",
    )
    flags.DEFINE_integer(
        "max_tokens",
        0,
        "Most tokens that long texts or many choices may become in a call, rows times "
        "length; 0: any number. serve.py has a limit of its own.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "top_k", 5, "For a masked LM: tokens for each [MASK].", lower_bound=1
    )
    flags.DEFINE_enum(
        "dtype",
        "float32",
        ["float32", "bfloat16"],
        "Of weights and products; bfloat16 takes half the space.",
    )


def from_flags(parsed):
    """`Options` of absl's parsed flags."""
    names = [field.name for field in dataclasses.fields(Options)]
    return Options(**{name: getattr(parsed, name) for name in names})
