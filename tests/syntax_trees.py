"""What the tests of imports and of docs read of the code without running it."""

import ast
import functools


@functools.cache
def parse(path):
    return ast.parse(path.read_bytes())


def is_command(tree):
    """Whether a module ends by running its main."""
    conditions = [ast.dump(n.test) for n in tree.body if isinstance(n, ast.If)]
    return any("__main__" in condition for condition in conditions)
