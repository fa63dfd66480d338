#!/usr/bin/env python3
"""Run a command and print its time, CPU time and peak memory, children included.

  measure.py [--label NAME] [--log FILE] [--series FILE] -- COMMAND...

CPU time is user + system of every process it started, also of those it left behind: this process adopts them and waits.
Memory is the resident memory of the whole tree of processes, added up (shared pages count in each), looked at 20 times a
second. --series writes "seconds megabytes" once a second. Exit status: that of the command.
"""
import argparse
import ctypes
import os
import resource
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
PAGE = os.sysconf("SC_PAGE_SIZE")


def tree_rss(root):
    """Resident bytes of a process and all its descendants."""
    total, pids = 0, [root]
    while pids:
        pid = pids.pop()
        try:
            with open(f"/proc/{pid}/statm") as statm:
                total += int(statm.read().split()[1]) * PAGE
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as children:
                    pids += [int(child) for child in children.read().split()]
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
    return total


def adopt_the_rest():
    """Waits for what the command left behind."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def run(command, log, series):
    began, peak, next_second = time.monotonic(), 0, 0.0
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT if log else None)
    while process.poll() is None:
        now, rss = time.monotonic() - began, tree_rss(process.pid)
        peak = max(peak, rss)
        if series and now >= next_second:
            series.write(f"{now:.0f} {rss / 1e6:.1f}\n")
            next_second += 1.0
        time.sleep(0.05)
    wall = time.monotonic() - began
    adopt_the_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process.returncode, wall, used.ru_utime + used.ru_stime, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="run")
    parser.add_argument("--log", type=argparse.FileType("w"))
    parser.add_argument("--series", type=argparse.FileType("w"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    status, wall, cpu, peak = run(command, arguments.log, arguments.series)
    print(f"{arguments.label:<24} {wall:8.2f} s   {cpu:8.2f} CPU-s   {peak / 1e6:8.1f} MB peak   exit {status}", flush=True)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
