"""A day of the service in minutes, every answer compared with what was learnt: ``python -m benchmarks.soak_http``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.service.soak import soak

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--hours", type=float, default=24.0, help="how much time passes meanwhile")
    parser.add_argument("--restarts", type=int, default=10, help="every second one is a kill -9")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), 60 * chosen.minutes, chosen.hours, chosen.restarts, chosen.seed)
    for name, value in vars(found).items():
        print(f"{name}: {dict(value) if name == 'answers' else value}")
    bad = found.lost + found.twice + found.mistaken + found.unsafe
    print(f"{'a difference was' if bad else 'no difference'} found")
    raise SystemExit(bool(bad))
