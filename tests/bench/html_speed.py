"""Helper of tests/bench/html-speed.

  html_speed.py FILE                       lets edgartools read a filing
  html_speed.py --summary TOOL LOG FOLDER  sums up the lines of measure.py about the files of a folder
"""
import os
import re
import statistics
import sys

# A 3 MB filing has a mark of its own.
LARGE_MB = 2.9


def read_filing(path):
    # html.py of this folder would be found in place of the module of that name.
    sys.path.pop(0)
    from edgar.documents import HTMLParser, ParserConfig

    form = "10-Q" if "10Q" in path else "10-K"
    with open(path, encoding="utf-8", errors="replace") as file:
        document = HTMLParser(ParserConfig(form=form)).parse(file.read())
    print(len(document.sections), len(document.tables), len(document.text()))


def summarize(tool, log, folder):
    rows = []
    for line in open(log):
        found = re.match(r"(\S+) .*? ([\d.]+) CPU-s +([\d.]+) MB peak +exit (\d+)", line)
        name, cpu, peak, status = found.groups()
        size = os.path.getsize(os.path.join(folder, name)) / 1e6
        rows.append((size, float(cpu), float(peak), int(status)))
    for label, chosen in [("all", rows), ("3 MB and more", [row for row in rows if row[0] >= LARGE_MB])]:
        cpu = [row[1] for row in chosen]
        failed = sum(row[3] != 0 for row in chosen)
        print(
            f"{tool:<10} {label:<14} {len(chosen):3} files   CPU-s median {statistics.median(cpu):.2f}, most {max(cpu):.2f}"
            f"   CPU-s a MB {sum(cpu) / sum(row[0] for row in chosen):.3f}   MB peak most {max(row[2] for row in chosen):.0f}   failed {failed}"
        )


if sys.argv[1] == "--summary":
    summarize(*sys.argv[2:])
else:
    read_filing(sys.argv[1])
