"""The query server of a store, for benches that measure over HTTP."""

import os
import subprocess
import threading


def start(stemma, store, env=None):
    """The process and its URL, once it listens."""
    command = [stemma, "--store", str(store), "query", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, env=os.environ | (env or {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "127.0.0.1:" in line and ("started" in line or line.startswith("http://")):
            url = "http://127.0.0.1:" + line.split("127.0.0.1:")[1].split('"')[0].split()[0].strip(",}")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, url
    raise SystemExit("the server did not start")


def cpu_seconds(process):
    """User and system time so far, of the process alone."""
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
