"""Why a job hangs, from its ranks' flight-recorder dumps: one verdict and the evidence for it.

Three pictures, the surest first. *Mismatched*: members of a group asked for different things under one number.
*Stopped*: a rank's last completed collective is older than that of others in its group; it took part (they could
finish), so its device or its link failed. *Missing*: others wait in a collective that a rank never asked for, while
that rank itself waits for nothing; its CPU hangs or its process is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ingest.flight_recorder import Dump, Entry, Group

_UNEVEN = ("all_to_all", "alltoall", "gather", "scatter", "send", "recv", "coalesced")  # sizes may differ by rank


@dataclass
class Verdict:
    """What hangs. ``kind``: mismatched, stopped, missing, deadlock, stuck, healthy or cannot_tell."""

    kind: str
    sentence: str
    ranks: list[int] = field(default_factory=list)  # the culprits
    group: str | None = None
    seq: int | None = None
    op: str | None = None
    evidence: list[str] = field(default_factory=list)
    missing_dumps: list[int] = field(default_factory=list)


def judge(dumps: list[Dump]) -> Verdict:
    """Return the verdict on a job's dumps; the order of the dumps does not matter."""
    job = _Job(dumps)
    verdict = _mismatched(job) or _stopped(job) or _missing(job) or _rest(job)
    verdict.missing_dumps = job.without_dump
    return verdict


class _Job:
    """The dumps of a job, by group and by rank."""

    def __init__(self, dumps: list[Dump]) -> None:
        self.dumps = {one.rank: one for one in sorted(dumps, key=lambda one: one.rank)}
        self.views: dict[str, dict[int, Group]] = defaultdict(dict)  # group -> rank -> the group as that rank knows it
        self.members: dict[str, tuple[int, ...]] = {}
        for rank, dump in self.dumps.items():
            for name, group in dump.groups.items():
                self.views[name][rank] = group
                self.members[name] = tuple(sorted({*self.members.get(name, ()), *group.ranks, rank}))
        self.without_dump = sorted({one for ranks in self.members.values() for one in ranks} - self.dumps.keys())
        self.p2p = {name for name, views in self.views.items() if any(one.p2p for one in views.values())}
        self.entries = {
            (one.group, one.seq, rank): one for rank, dump in self.dumps.items() for one in dump.entries if not one.p2p
        }

    def collective_groups(self) -> Iterator[tuple[str, dict[int, Group]]]:
        """Yield the groups whose counters count collectives alone, and so agree over ranks."""
        yield from ((name, self.views[name]) for name in sorted(self.views, key=_natural) if name not in self.p2p)

    def entry(self, group: str, seq: int) -> Entry | None:
        """Return what some rank asked for under a number."""
        return next((one for rank in self.members[group] if (one := self.entries.get((group, seq, rank)))), None)

    def call(self, group: str, seq: int) -> str:
        """Name a collective for a sentence."""
        entry = self.entry(group, seq)
        name = next((one.description for one in self.views[group].values() if one.description), "")
        return f"{entry.op if entry else 'collective'} #{seq} of group {group}" + (f" ({name})" if name else "")

    def stuck(self, group: Group) -> bool:
        """Whether a rank waits in a group."""
        return group.enqueued is not None and group.completed is not None and group.enqueued > group.completed


def _mismatched(job: _Job) -> Verdict | None:
    for name, views in job.collective_groups():
        waiting = [one.completed + 1 for one in views.values() if job.stuck(one) and one.completed is not None]
        for seq in sorted(set(waiting)):
            asked = {rank: one for rank in views if (one := job.entries.get((name, seq, rank)))}
            kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
            for rank, entry in asked.items():
                sizes = () if any(word in entry.op for word in _UNEVEN) else entry.sizes
                kinds[entry.op, entry.dtypes, sizes].append(rank)
            if len(kinds) > 1:
                few = min(kinds.values(), key=len)
                culprits = few if 2 * len(few) < len(asked) else sorted(asked)
                evidence = [f"{_ranks(ranks)} asked for {_asked(asked[ranks[0]])}." for ranks in kinds.values()]
                sentence = f"The ranks of group {name} disagree in collective #{seq}: {' '.join(evidence)}"
                return Verdict("mismatched", sentence, culprits, name, seq, asked[culprits[0]].op, evidence)
    return None


def _stopped(job: _Job) -> Verdict | None:
    behind: dict[int, int] = {}
    evidence: dict[int, str] = {}
    first: tuple[str, int] | None = None
    for name, views in job.collective_groups():
        known = {rank: one.completed for rank, one in views.items() if one.completed is not None}
        if not known or (most := max(known.values())) == min(known.values()):
            continue
        for rank, completed in known.items():
            if completed < most and job.stuck(views[rank]) and most - completed > behind.get(rank, 0):
                behind[rank] = most - completed
                ahead = [one for one, value in known.items() if value > completed]
                evidence[rank] = (
                    f"Rank {rank} last completed #{completed} of group {name}; {_ranks(ahead).lower()} completed up to #{most}."
                )
                if behind[rank] == max(behind.values()):
                    first = (name, completed + 1)
    if first is None:
        return None
    ranks = sorted(behind)
    group, seq = first
    sentence = (
        f"{_ranks(ranks)} stopped first: others in the group finished collectives that {'it' if len(ranks) == 1 else 'they'} "
        f"took part in and never completed. Look at the device and the link of {_ranks(ranks).lower()}."
    )
    entry = job.entry(group, seq)
    return Verdict(
        "stopped", sentence, ranks, group, seq, entry.op if entry else None, [evidence[one] for one in ranks]
    )


def _missing(job: _Job) -> Verdict | None:
    waits, reasons = _waits(job)
    awaited = {one for others in waits.values() for one in others}
    culprits = sorted(one for one in awaited if not waits.get(one))
    if not culprits:
        return None
    told = [reasons[one] for one in culprits]
    group, seq, _ = told[0]
    gone = [one for one in culprits if one in job.without_dump]
    hung = [one for one in culprits if one not in job.without_dump]
    parts = []
    if hung:
        each = "it waits" if len(hung) == 1 else "they wait"
        parts.append(
            f"{_ranks(hung)} asked for no more collectives, while {each} for nothing and others wait in "
            f"{job.call(group, seq) if seq else f'an exchange of group {group}'}: the CPU hangs. "
            f"Look at the stack of {_ranks(hung).lower()}."
        )
    if gone:
        parts.append(f"{_ranks(gone)} left no dump, and others wait for {'it' if len(gone) == 1 else 'them'}.")
    evidence = [line for _, _, line in told]
    entry = job.entry(group, seq) if seq else None
    return Verdict("missing", " ".join(parts), culprits, group, seq or None, entry.op if entry else None, evidence)


def _waits(job: _Job) -> tuple[dict[int, set[int]], dict[int, tuple[str, int, str]]]:
    """Return who waits for whom, and for each that is waited for (group, seq, sentence) of the first reason."""
    waits: dict[int, set[int]] = defaultdict(set)
    reasons: dict[int, tuple[str, int, str]] = {}
    for name, views in job.collective_groups():
        for seq in sorted(
            {one.completed + 1 for one in views.values() if job.stuck(one) and one.completed is not None}
        ):
            inside = [
                rank
                for rank, one in views.items()
                if one.enqueued is not None
                and one.enqueued >= seq
                and one.completed is not None
                and one.completed < seq
            ]
            for rank in sorted(set(job.members[name]) - set(inside)):
                view = views.get(rank)
                if view is not None and view.enqueued is not None and view.enqueued >= seq:
                    continue  # it is done with this one
                for one in inside:
                    waits[one].add(rank)
                last = "left no dump" if view is None else f"asked for nothing after #{view.enqueued or 0}"
                reasons.setdefault(
                    rank, (name, seq, f"{_ranks(inside)} wait in {job.call(name, seq)}; rank {rank} {last}.")
                )
    for rank, peer, entry in _exchanges(job):
        waits[rank].add(peer)
        reasons.setdefault(
            peer, (entry.group, 0, f"Rank {rank} waits in {entry.op} of group {entry.group} for rank {peer}.")
        )
    return waits, reasons


def _exchanges(job: _Job) -> Iterator[tuple[int, int, Entry]]:
    """Yield (rank, peer, entry) for each rank's first unfinished send or recv of a group whose peer offers nothing back."""
    for rank, dump in job.dumps.items():
        seen: set[str] = set()
        for entry in dump.entries:
            if not entry.p2p or entry.state == "completed" or entry.group in seen:
                continue
            seen.add(entry.group)
            peer = _peer(job, entry)
            if peer is None or peer == rank:
                continue
            other = job.dumps.get(peer)
            if other is None or not any(
                one.p2p and one.group == entry.group and one.state != "completed" and _peer(job, one) == rank
                for one in other.entries
            ):
                yield rank, peer, entry


def _peer(job: _Job, entry: Entry) -> int | None:
    """Return the global rank at the other end of ``send 0->3`` or ``recv 0<-3``, whose numbers are the group's own."""
    _, arrow, number = entry.op.replace("<-", "->").partition("->")
    members = job.members[entry.group]
    if not arrow or not number.strip().isdecimal() or int(number) >= len(members):
        return None
    return members[int(number)]


def _rest(job: _Job) -> Verdict:
    stuck = [
        (rank, name, one.completed + 1)
        for name, views in job.collective_groups()
        for rank, one in views.items()
        if job.stuck(one) and one.completed is not None
    ]
    waits, reasons = _waits(job)
    if waits:
        ranks = sorted({one for others in waits.values() for one in others})
        sentence = f"{_ranks(ranks)} wait for each other in a ring: they ask for their collectives in different orders."
        return Verdict("deadlock", sentence, ranks, evidence=[reasons[one][2] for one in ranks])
    if not stuck:
        if job.without_dump:
            sentence = f"No rank that left a dump waits; {_ranks(job.without_dump)} left none."
            return Verdict("cannot_tell", sentence)
        return Verdict("healthy", "No rank waits in a collective: every one that was asked for is complete.")
    _, name, seq = stuck[0]
    everyone = sorted(one for one, group, number in stuck if (group, number) == (name, seq))
    entry = job.entry(name, seq)
    return Verdict(
        "stuck",
        f"{_ranks(everyone)} all joined {job.call(name, seq)} and none completed it: no rank is missing. Look at the network.",
        [],
        name,
        seq,
        entry.op if entry else None,
        [f"{_ranks(everyone)} joined {job.call(name, seq)}."],
    )


def _asked(entry: Entry) -> str:
    return f"{entry.op} of {', '.join(entry.dtypes) or 'unknown type'} {[list(one) for one in entry.sizes]}"


def _ranks(ranks: list[int]) -> str:
    """Name ranks for a sentence."""
    listed = sorted(ranks)
    if len(listed) == 1:
        return f"Rank {listed[0]}"
    return f"Ranks {', '.join(map(str, listed[:-1]))} and {listed[-1]}"


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (1 << 62, name)
