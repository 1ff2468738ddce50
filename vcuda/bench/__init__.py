"""Benchmarks of the limiting library on simulated cards: `python -m vcuda.bench [NAME] --out build/bench.jsonl`.

Every figure is judged against a bar, and where a mechanism is judged, beside a control run without it that must miss the bar. What the card did is
read from the simulator's own state, never from the library's books.
"""
