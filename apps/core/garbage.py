"""Python's search for unreachable cycles, in processes that answer people.

It looks at everything that lives, in the thread that happens to make the next object: 50 to 80 ms here, at times with the database's write
lock in its hand. What was loaded at the start never goes, so it need not be looked at again; the rest is looked at less often.
"""

import gc
from typing import Final

# Python's own are 700, 10, 10; a request makes some 5,000 objects, few of them in cycles.
_THRESHOLDS: Final = (10_000, 20, 20)


def has_loaded() -> None:
    """Call it once, when everything is imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
