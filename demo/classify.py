"""Says which library a text is from; needs TensorFlow and the SavedModel, nothing else.

python -I demo/classify.py demo_output/exported "Return the sum of all elements."
"""

import os
import sys

# What TensorFlow says of the machine when it is imported is not for the reader.
_stderr = os.dup(2)
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
import tensorflow as tf  # noqa: E402

os.dup2(_stderr, 2)


def main(model_dir, *texts):
    model = tf.saved_model.load(model_dir)
    with open(
        os.path.join(model_dir, "assets", "labels.txt"), encoding="utf-8"
    ) as file:
        labels = file.read().splitlines()
    outputs = model.signatures["text"](text_a=tf.constant(texts))
    for text, row in zip(texts, outputs["probabilities"].numpy(), strict=True):
        best = row.argmax()
        print(f"{row[best]:5.0%}  {labels[best]:<16} {text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
