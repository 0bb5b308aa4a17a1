"""A network of name spaces on one bridge, in which any way between two machines can be cut: frames then go to an address
that no machine has, so that what is sent is lost without a word, as on a real network. Only for root, and in a name
space of its own (scripts/chaos.sh makes one), so that nothing of it outlasts the run."""

import collections
import contextlib
import ctypes
import os
import pathlib
import socket
import subprocess

PREFIX = "10.77.0."
OWN = PREFIX + "254"  # address of the harness itself
NOWHERE = "02:de:ad:00:00:00"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def enter(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    def __init__(self, names):
        self.number = {name: number for number, name in enumerate(names, 1)}
        self.lost = collections.Counter()  # (from, to) -> number of faults that cut it
        self.own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        ip("link", "set", "lo", "up")
        ip("link", "add", "bridge", "type", "bridge")
        ip("addr", "add", OWN + "/24", "dev", "bridge")
        ip("link", "set", "bridge", "up")
        for name in names:
            ip("netns", "add", name)
            ip("link", "add", "to-" + name, "type", "veth", "peer", "name", "eth0", "netns", name,
               "address", self.mac(name))
            ip("link", "set", "to-" + name, "master", "bridge", "up")
            ip("-n", name, "addr", "add", self.address(name) + "/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")
        self.spaces = {name: os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC) for name in names}

    @staticmethod
    def path(name):
        return str(pathlib.Path("/run/netns") / name)

    def address(self, name):
        return PREFIX + str(self.number[name])

    def mac(self, name):
        return f"02:00:00:00:00:{self.number[name]:02x}"

    def command(self, name, command):
        """Returns the command to run a program on that machine. The process id stays the same."""
        return ["nsenter", "--net=" + self.path(name), "--", *map(str, command)]

    @contextlib.contextmanager
    def on(self, name):
        """Context in which new sockets belong to that machine. Affects only this thread."""
        enter(self.spaces[name])
        try:
            yield
        finally:
            enter(self.own)

    def socket(self, name):
        with self.on(name):
            return socket.socket(socket.AF_INET)

    def route(self, sender, receiver, mac):
        ip("-n", sender, "neigh", "replace", self.address(receiver), "lladdr", mac, "nud", "permanent", "dev", "eth0")

    def cut(self, sender, receiver):
        """Drops everything that `sender` sends to `receiver`, but not the other direction. Each cut needs one heal."""
        self.lost[sender, receiver] += 1
        self.route(sender, receiver, NOWHERE)

    def heal(self, sender, receiver):
        self.lost[sender, receiver] -= 1
        if self.lost[sender, receiver] == 0:
            self.route(sender, receiver, self.mac(receiver))

    def reaches(self, one, other):
        return self.lost[one, other] + self.lost[other, one] == 0
