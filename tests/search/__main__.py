"""`make search MINUTES=…`: give each campaign turns of other seeds until the time is used up.

Campaigns share the time evenly, whatever a turn takes; one that fails gets no more turns, and the others go on.
"""

import argparse
import faulthandler
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from tests.search import CAMPAIGNS

Search = Callable[[int], None]

# A turn takes a minute at most: one that takes so long hangs.
_HANGS_AFTER_SECONDS = 900


@dataclass
class Account:
    """What one campaign has done so far."""

    search: Search
    seconds: float = 0.0
    turns: int = 0
    failure: str = ""
    replay: str = field(default="", init=False)


def run(
    searches: Mapping[str, Search],
    *,
    seed: int,
    minutes: float,
    turns: int | None = None,
    seconds: Callable[[], float] = time.monotonic,
) -> dict[str, Account]:
    """Return what each campaign did in `minutes`, or in that many turns of each; turn n of any has the seed `seed` + n.

    Each gets one turn at least.
    """
    accounts = {name: Account(search) for name, search in searches.items()}
    ends = seconds() + minutes * 60
    while open_ := [
        (account.turns > 0, account.seconds, name)
        for name, account in accounts.items()
        if not account.failure and (turns is None or account.turns < turns) and (not account.turns or seconds() < ends)
    ]:
        name = min(open_)[2]
        account, begun = accounts[name], seconds()
        try:
            account.search(seed + account.turns)
        except Exception:  # The other campaigns go on.
            account.failure = traceback.format_exc()
            account.replay = f"python -m tests.search --only {name} --seed {seed + account.turns} --turns 1"
        account.turns += 1
        account.seconds += seconds() - begun
    return accounts


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long all campaigns may take together")
    parser.add_argument("--seed", type=int, help="the seed of the first turns; printed, random unless given")
    parser.add_argument("--only", action="append", choices=sorted(CAMPAIGNS), help="this campaign; may be repeated")
    parser.add_argument("--turns", type=int, help="so many turns of each campaign at most")
    given = parser.parse_args(arguments)
    seed = secrets.randbits(31) if given.seed is None else given.seed
    names = sorted(set(given.only or CAMPAIGNS))
    print(f"Searching {', '.join(names)} for {given.minutes:g} minutes with seed {seed}", flush=True)
    faulthandler.dump_traceback_later(given.minutes * 60 + _HANGS_AFTER_SECONDS, exit=True)
    searches = {name: import_module(CAMPAIGNS[name]).search for name in names}
    accounts = run(searches, seed=seed, minutes=given.minutes, turns=given.turns)
    faulthandler.cancel_dump_traceback_later()
    for name, account in accounts.items():
        if account.failure:
            print(f"\n{name} failed:\n{account.failure}")
    for name, account in accounts.items():
        outcome = f"FAILED; replay: {account.replay}" if account.failure else "nothing found"
        print(f"{name:<20} {account.turns:>6} turns {account.seconds:>7.0f} s  {outcome}")
    return int(any(account.failure for account in accounts.values()))


if __name__ == "__main__":
    sys.exit(main())
