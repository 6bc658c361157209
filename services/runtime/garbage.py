"""Python's garbage collector in a server process."""

import gc

# A few requests at work are as many as the collector waits for by default, and it would look at them again and again:
# 5 % of all work. They leave nothing that only it could find.
_NEW_OBJECTS = 10_000


def settle() -> None:
    """Takes what there is for what stays: code, models, tables. To be called once, when all of it is loaded.

    A full collection walks over every object and stops the process meanwhile: 150 ms and more where two hundred
    thousand are loaded, in the middle of somebody's answer. What is frozen is not looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
