"""Helper of tests/bench/html-speed.

  html_speed.py FILE                       lets edgartools read a filing
  html_speed.py --summary TOOL LOG FOLDER  sums up the lines of measure.py about the files of a folder
  html_speed.py --marks LOG FOLDER         compares such lines, some for each file, with the marks of issue 18; exit status 1 where
                                           one is missed
"""
import os
import re
import statistics
import sys

# A 3 MB filing has a mark of its own.
LARGE_MB = 2.9
# What a 10-K of 3 MB may take.
MARK_CPU_S, MARK_PEAK_MB = 0.25, 150


def read_filing(path):
    # html.py of this folder would be found in place of the module of that name.
    sys.path.pop(0)
    from edgar.documents import HTMLParser, ParserConfig

    form = "10-Q" if "10Q" in path else "10-K"
    with open(path, encoding="utf-8", errors="replace") as file:
        document = HTMLParser(ParserConfig(form=form)).parse(file.read())
    print(len(document.sections), len(document.tables), len(document.text()))


def read_rows(log, folder):
    """(MB, CPU seconds, MB of memory, exit status, name) of each run."""
    rows = []
    for line in open(log):
        found = re.match(r"(\S+) .*? ([\d.]+) CPU-s +([\d.]+) MB peak +exit (\d+)", line)
        name, cpu, peak, status = found.groups()
        size = os.path.getsize(os.path.join(folder, name)) / 1e6
        rows.append((size, float(cpu), float(peak), int(status), name))
    return rows


def summarize(tool, log, folder):
    rows = read_rows(log, folder)
    for label, chosen in [("all", rows), ("3 MB and more", [row for row in rows if row[0] >= LARGE_MB])]:
        cpu = [row[1] for row in chosen]
        failed = sum(row[3] != 0 for row in chosen)
        print(
            f"{tool:<10} {label:<14} {len(chosen):3} files   CPU-s median {statistics.median(cpu):.2f}, most {max(cpu):.2f}"
            f"   CPU-s a MB {sum(cpu) / sum(row[0] for row in chosen):.3f}   MB peak most {max(row[2] for row in chosen):.0f}   failed {failed}"
        )


def check_marks(log, folder):
    """By the least CPU seconds of each file: other work on the machine only adds to them."""
    runs = read_rows(log, folder)
    least = {row[4]: row for row in sorted(runs, key=lambda row: -row[1])}.values()
    cpu_s = 3 * sum(row[1] for row in least) / sum(row[0] for row in least)
    peak_mb = max(row[2] for row in runs)
    print(f"{len(least)} large 10-Ks, the least of {len(runs) // len(least)} runs, load {os.getloadavg()[0]:.1f}")
    for what, value, mark in ((f"CPU-s of 3 MB {cpu_s:.3f}", cpu_s, MARK_CPU_S), (f"MB peak {peak_mb:.0f}", peak_mb, MARK_PEAK_MB)):
        print(f"  {what:<20} mark {mark:<5} {'reached' if value <= mark else 'MISSED'}")
    return cpu_s <= MARK_CPU_S and peak_mb <= MARK_PEAK_MB


if sys.argv[1] == "--summary":
    summarize(*sys.argv[2:])
elif sys.argv[1] == "--marks":
    sys.exit(0 if check_marks(*sys.argv[2:]) else 1)
else:
    read_filing(sys.argv[1])
