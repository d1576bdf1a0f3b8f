"""Reads back what a run's monitors wrote, with the programs that people read them with, and compares it with the
metrics file.

usage: check_monitors.py METRICS_JSONL CSV_FOLDER TENSORBOARD_FOLDER
needs: pip install tensorboard pandas (a virtual environment of its own will do)
"""
import json
import math
import pathlib
import sys

import pandas
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

KEYS = {"train_loss": "loss", "lr": "lr", "grad_norm": "grad_norm", "loss_scale": "loss_scale",
        "tokens_per_s": "tokens_per_s", "peak_bytes": "peak_bytes", "eval_loss": "eval_loss"}


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    lines = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
    events = EventAccumulator(sys.argv[3], size_guidance={"scalars": 0})
    events.Reload()
    batch = None
    for name, key in KEYS.items():
        expected = [line[key] for line in lines if key in line]
        table = pandas.read_csv(pathlib.Path(sys.argv[2]) / f"Train_Samples_{name}.csv")
        points = events.Scalars(f"Train/Samples/{name}") if expected else []
        assert list(table.columns) == ["step", name], table.columns
        assert len(table) == len(points) == len(expected), (name, len(table), len(points), len(expected))
        for line, row, point in zip([line for line in lines if key in line], table.itertuples(), points):
            batch = batch or row.step // line["step"]
            want = math.nan if line[key] is None else line[key]
            assert row.step == point.step == batch * line["step"], (name, row.step, point.step, line["step"])
            assert row[2] == want or math.isnan(want), (name, row[2], want)
            assert math.isclose(point.value, want, rel_tol=1e-6) or math.isnan(want), (name, point.value, want)
        print(f"{name}: {len(expected)} values agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
