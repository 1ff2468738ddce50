"""The runner: one small process per run that starts it, stays its parent, ends it whole, and writes down how it ended.

Standard library only, and imported without site packages (`python -I -S`), so that it starts in a few hundredths of a second
and stays small. It outlives the driver; the driver finds it again by the lock that it holds. It must never take part in
decisions: no placement, no quota, no retry.
"""
