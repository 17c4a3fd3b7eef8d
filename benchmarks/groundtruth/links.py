"""A private network: every rank on a host of its own, behind a link of a set rate.

``run(["200mbit", "50mbit"], [python, "train.py"])`` starts one command per rate. Each gets a network namespace with a
rate-limited link in both directions, a host name, and the variables of torchrun. All of it lives in namespaces of its
own: the machine's network is not touched, and nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

ADDRESS, PORT = "10.9.0", 29600
SHAPE = ("tbf", "burst", "32kb", "latency", "400ms", "rate")  # the rate is appended


def why_not() -> str:
    """Return why no such network can be made here, '' when it can."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "unshare"))):
        return "Rate-limited links need root and iproute2 (apt-get install iproute2): run this as root where both are."
    return ""


def run(rates: Sequence[str], command: Sequence[str], environment: dict[str, str]) -> None:
    """Run a command once per rate and wait for all.

    Raises:
        RuntimeError: A rank failed; its last words are told.
    """
    inside = ["unshare", "-n", "-m", "-u", sys.executable, "-m", __name__, ",".join(rates), *command]
    done = subprocess.run(inside, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"A rank of {command} failed:\n{done.stderr[-3000:]}")


def _do(text: str) -> None:
    subprocess.run(text.split(), check=True)


def _link(rank: int, rate: str) -> None:
    inner, outer, space = f"e{rank}", f"h{rank}", f"r{rank}"
    _do(f"ip netns add {space}")
    _do(f"ip link add {outer} type veth peer name {inner}")
    _do(f"ip link set {inner} netns {space}")
    _do(f"ip link set {outer} master br0 up")
    _do(f"ip -n {space} link set lo up")
    _do(f"ip -n {space} addr add {ADDRESS}.{rank + 1}/24 dev {inner}")
    _do(f"ip -n {space} link set {inner} up")
    shape = " ".join((*SHAPE, rate))
    _do(f"ip netns exec {space} tc qdisc add dev {inner} root {shape}")
    _do(f"tc qdisc add dev {outer} root {shape}")


def _start(rank: int, world: int, command: Sequence[str]) -> subprocess.Popen[bytes]:
    told = {
        "RANK": rank,
        "LOCAL_RANK": 0,
        "WORLD_SIZE": world,
        "MASTER_ADDR": f"{ADDRESS}.1",
        "MASTER_PORT": PORT,
        "GLOO_SOCKET_IFNAME": f"e{rank}",
    }
    named = ["unshare", "-u", "sh", "-c", f'hostname node{rank}; exec "$@"', "sh", *command]
    environment = {**os.environ, **{name: str(value) for name, value in told.items()}}
    return subprocess.Popen(["ip", "netns", "exec", f"r{rank}", *named], env=environment)


def main() -> None:
    """Inside the namespaces: make the links, run the ranks."""
    rates, command = sys.argv[1].split(","), sys.argv[2:]
    _do("mount -t tmpfs none /run")
    os.makedirs("/run/netns")
    _do("ip link set lo up")
    _do("ip link add br0 type bridge")
    _do(f"ip addr add {ADDRESS}.254/24 dev br0")
    _do("ip link set br0 up")
    for rank, rate in enumerate(rates):
        _link(rank, rate)
    ranks = [_start(rank, len(rates), command) for rank in range(len(rates))]
    sys.exit(max(abs(one.wait()) for one in ranks))


if __name__ == "__main__":
    main()
