"""Whether training still gives the same bits: short runs of several simulators, compared by hash.

``python benchmarks/same_bits.py`` trains each case for three iterations, or training episodes where rollouts grow, with
the compiled CPU update and with torch's. It compares the hash of every trajectory and of the trained parameters with
those in ``same_bits.json``. Another CPU, NumPy, Numba or torch may round differently, so records are kept for each
combination. ``--save`` records them anew, after a change that is meant to change what is learned. ``--root DIR`` runs
another checkout instead of this one.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite.binding
import safetensors.numpy

HERE = Path(__file__).resolve().parent
RECORD = HERE / "same_bits.json"
COMPLETE = HERE.parent.parent / "shared" / "scenarios" / "complete.json"
NAMED = [  # settings whose defaults may change
    *("--gamma", "0.99", "--gae-lambda", "0.97", "--learning-rate-actor", "1.5e-3", "--num-epochs", "1"),
    *("--entropy-coefficient", "0", "--entropy-schedule", "constant", "--target-kl", "0", "--batch-size", "1024"),
    *("--adam-epsilon-actor", "1e-3", "--value-lambda", "0.99", "--no-grow-horizon"),
    *("--entropy-target", "0", "--exploring-starts", "0"),
]
GROWING = ["--gamma", "0", "--num-epochs", "2", "--target-kl", "0.01", "--critic-hidden-size", "64"]
SHORT = ["--num-envs", "2", "--rollout-steps", "2048", "--num-epochs", "3", "--batch-size", "256"]
WIDE = ["--normalise-rewards", "--entropy-coefficient", "0.01", "--target-kl", "0.05"]
CASES = {
    "loan_desk": ["--num-envs", "2"],
    "mined_log": [
        "--event-log",
        "src/core/longstride/process/logs/loan_desk_sample.csv",
        "--num-envs",
        "3",
    ],
    "complete": ["--scenario", str(COMPLETE), "--num-envs", "2"],
    "cartpole": ["--simulator", "cartpole", *SHORT],
    "mountain_car": ["--simulator", "mountain_car", *SHORT, "--activation", "tanh"],
    "mountain_car_continuous": ["--simulator", "mountain_car_continuous", *SHORT, *WIDE],
    "acrobot": ["--simulator", "acrobot", *SHORT, "--weight-init", "kaiming_uniform"],
    "pendulum": ["--simulator", "pendulum", *SHORT, *WIDE, "--activation", "tanh"],
    "gymnasium_cartpole": ["--simulator", "gymnasium:CartPole-v1", *SHORT],
    "gymnasium_pendulum": ["--simulator", "gymnasium:Pendulum-v1", *SHORT, *WIDE],
    "lost_sales": ["--simulator", "lost_sales", *GROWING],
}
EXECUTIONS = ("numba", "eager")


def environment() -> str:
    """Return what rounding depends on: the processor for which code is compiled, and the versions of what computes."""
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "scipy", "torch"))
    return ", ".join([llvmlite.binding.get_host_cpu_name(), *versions])


def hashes(root: Path, case: str, execution: str) -> dict[str, object]:
    """Train a case in a checkout and return the hashes of its trajectories and of its parameters."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "scripts/train.py", "--mode", "train", "--training-episodes", "3", "--seed", "7"]
        command += [*NAMED, *CASES[case], "--update-execution", execution, "--run-directory", str(run)]
        path = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=root, env=path, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{case}, {execution}: {done.stderr.strip() or done.stdout.strip()}")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        newest = max((run / "checkpoints" / "last").glob("*.safetensors"))
        return {"trajectories": [line["trajectory_sha256"] for line in lines], "parameters": parameters_sha256(newest)}


def parameters_sha256(file: Path) -> str:
    """Return the hash of a checkpoint's actor, critic, their scales and Adam's moments, whatever their names are."""
    tensors = safetensors.numpy.load_file(file)
    kept = [t for name, t in tensors.items() if name.split(".")[0] in ("model", "optimizer", "statistics")]
    digests = sorted(hashlib.sha256(repr((t.shape, str(t.dtype))).encode() + t.tobytes()).hexdigest() for t in kept)
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def main() -> int:
    """Train all cases and compare or save; return 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="record the hashes of this machine")
    parser.add_argument("--root", type=Path, default=HERE.parent, help="checkout to run (default: this one)")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    wanted = [(c, e) for c in options.cases for e in EXECUTIONS if c != "complete" or COMPLETE.exists()]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda job: hashes(options.root.resolve(), *job), wanted))
    measured = {f"{case} {execution}": value for (case, execution), value in zip(wanted, found, strict=True)}
    records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if options.save:
        records[environment()] = records.get(environment(), {}) | measured
        RECORD.write_text(json.dumps(records, indent=1) + "\n")
        print(f"Recorded {len(measured)} runs for {environment()}.")
        return 0
    if environment() not in records:
        print(f"No record for {environment()}: run a checkout that you trust with --root DIR --save first.")
        return 0
    before = records[environment()]
    differing = [name for name, value in measured.items() if name in before and value != before[name]]
    for name in measured:
        print(f"{name}: {'DIFFERENT' if name in differing else 'the same' if name in before else 'not recorded'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
