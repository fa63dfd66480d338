"""Ingests generated filings on real servers under faults: nothing may be lost, different, or paid for twice without need.

Each run first ingests without faults and then under them: at least 150 faults of all kinds, once per seed; faults that last 20 to 60 s; on a
busy machine; everything lost but S3; and in the embedded mode. The parts are faults, lasting, busy, loss and embedded.
"""

from cluster import run_program


def main(bench):
    program, seeds = bench.cargo("stemma-cluster", "bin", "chaos"), bench.options.seeds or [1, 2, 3, 4, 5]
    runs = [(part, seed) for seed in seeds for part in ("faults", "lasting")] + [(part, seeds[0]) for part in ("busy", "loss", "embedded")]
    for part, seed in runs:
        if bench.wants(part):
            run_program(bench, f"{part}, seed {seed}", [program, *([] if part == "faults" else [f"--{part}"]), "--seed", seed])


def add_arguments(parser):
    parser.add_argument("seeds", nargs="*", type=int, metavar="SEED", help="seeds of fault plans [default: 1 2 3 4 5]")
