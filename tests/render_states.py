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
- "Unknown" or a silent cluster changes nothing but how old the last sight is; a page says "unknown" after 45 s, never "gone".
- A run that ended by itself is not wanted any more: starting again is a new run that passes the quota anew.

"""

LOCKS = """
## Who locks what

Every write takes its locks in this order, so nobody waits in a circle:

1. the tenant and all departments above it, by id (`quotas.ledger.lock_path`): admission, new runs, quota changes;
2. the controller's lease (`workloads.lease.Fence`): everything that a controller has seen, so that one that was replaced writes nothing;
3. the workload's row: everything that changes its phase or what is wanted of it.

On PostgreSQL these are `FOR NO KEY UPDATE` row locks; on SQLite a transaction has the whole database (`BEGIN IMMEDIATE`). Giving a
claim back needs no lock above the workload's: room only grows. No lock is held while the cluster is asked.
"""

if __name__ == "__main__":
    print(TEXT + rendered() + LOCKS, end="")
