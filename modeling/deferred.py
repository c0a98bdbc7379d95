"""Models whose variables get their first values after the model is made.

A BERT-Base has 110 million random numbers to draw that a checkpoint then replaces, and
whoever only asks for names and shapes needs no variables at all.
"""

from collections.abc import Callable

import keras
import tensorflow as tf


def make(make_model: Callable, prepare: Callable) -> keras.Model:
    """Makes a model, with a say in what its variables start as.

    Args:
      make_model: function without arguments that makes a model which is built on
        construction.
      prepare: function of the model before its variables have values. It returns
        {path of a variable: function that gives its first value}, which is called
        with a function that gives the value it would have had. Variables that are not
        in there start as they would.

    Returns:
      The model.
    """
    # Variables made in this scope are initialised when it ends. That their initialiser
    # can be changed until then is how Keras 3.15 works, and not documented.
    with keras.StatelessScope():
        model = make_model()
        values = prepare(model)
        for variable in model.variables:
            if variable.path in values:
                variable._initializer = _initializer(
                    values[variable.path], variable._initializer
                )
    return model


def _initializer(value, usual):
    return lambda shape, dtype=None: value(lambda: usual(shape, dtype=dtype))


def shapes(make_model: Callable) -> tuple[dict[str, tuple[int, ...]], keras.Model]:
    """The variables of a model by name, none of which is allocated.

    Returns:
      {name: shape}, and the model, which cannot be used for anything.
    """
    found = {}

    def prepare(model):
        found.update({v.path: tuple(v.shape) for v in model.variables})
        return dict.fromkeys(found, lambda fresh: tf.zeros([]))

    model = make(make_model, prepare)
    return found, model
