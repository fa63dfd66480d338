#!/usr/bin/env bash
# Sourced by the benchmarks: paths, the release binary, a temporary folder that is removed at the end.
# DATA and TOOLS name the folders of documents and scoring tools; STEMMA names another binary.

# A question must not start a build.
case ${1:-} in
    -h | --help)
        sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"
        exit 0
        ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit 2
bench=$root/tests/bench
DATA=${DATA:-$root/../shared/data}
TOOLS=${TOOLS:-$root/../shared/tools}
target=${CARGO_TARGET_DIR:-$root/target}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$root" || exit 2

# A bench without its documents has nothing to say, which is no failure.
need_data() {
    local path
    for path in "$@"; do
        if [[ ! -e $path ]]; then
            echo "skipped: no data"
            exit 0
        fi
    done
}

build_stemma() {
    if [[ -z ${STEMMA:-} ]]; then
        cargo build --quiet --locked --release -p stemma || exit 1
        STEMMA=$target/release/stemma
    fi
}

# stemma over the store $scratch/$1.
stemma() {
    local store=$scratch/$1
    shift
    "$STEMMA" --store "$store" "$@"
}

# Ingests into the store $scratch/$1; documents that fail are reported and do not end a bench (exit status 3).
ingest() {
    local store=$1 status=0
    shift
    stemma "$store" -q ingest "$@" || status=$?
    ((status == 0 || status == 3)) || exit 1
}

# Time, CPU and memory of a command with all its children; its output goes to $scratch/log.
measure() {
    local label=$1
    shift
    python3 "$bench/measure.py" --label "$label" --log "$scratch/log" "$@"
}
