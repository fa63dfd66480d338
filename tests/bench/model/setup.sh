#!/usr/bin/env bash
# Sourced by the benches of the model path: what ../setup.sh gives, and the simulated provider.
# SIM names another binary of it.
# shellcheck source=tests/bench/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

build_sim() {
    if [[ -z ${SIM:-} ]]; then
        cargo build --quiet --locked --release -p stemma-sim --bin sim || exit 1
        SIM=$target/release/sim
    fi
}

# Builds both, and runs the Python of a bench.
measure_model() {
    build_stemma
    build_sim
    export STEMMA SIM DATA TOOLS
    SCRATCH=$scratch python3 "$bench/model/$1.py" "${@:2}"
}
