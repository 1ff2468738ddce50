"""Prints docs/development/states.md: `python -m tests.render_states`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from apps.workloads.states import rendered

TEXT = """# The life of a workload

Rendered from `apps/workloads/states.py` by `python -m tests.render_states`; a test keeps it true. Rows are phases, columns are
events, a dot is "cannot happen".

- What is *wanted* (`desired`: running, stopped, deleted) is changed by people and time limits only (`services.py`), what *is* only by
  the controller from what the cluster shows (`judge.py`, `reconcile.py`).
- The claim on the quota is written together with **admit**, and given back together with **gone**, **ended** or **broke**: the run was
  observed gone. An observation "unknown" is no event at all.
- **reached** follows one successful visit through the gateway; the time limit counts from there.
- A run that ended by itself is not wanted any more: starting again is a new run that passes the quota anew.

"""

if __name__ == "__main__":
    print(TEXT + rendered(), end="")
