"""Campaigns: thousands of random cases, more than a test run has time for.

    python tests/campaigns                                  # lists them
    python tests/campaigns documents --seconds 60 --seed 0  # one; `all` runs each for that long
    python tests/campaigns documents --seed 4711 --cases 1  # a case again, in this process

Exit status 1 if a case failed.  A failed case is printed with its seed, which repeats it.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from campaigns import campaign


def main() -> int:
    known = campaign.known()
    parser = argparse.ArgumentParser(prog="campaigns", description="Random cases by the thousand.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or some of {', '.join(known)}")
    parser.add_argument("--seconds", type=float, default=60, help="how long each may take (60)")
    parser.add_argument("--seed", type=int, default=0, help="the first case's number (0)")
    parser.add_argument("--cases", type=int, help="how many cases at the most")
    parser.add_argument("--here", action="store_true", help="in this process, for a debugger")
    given = parser.parse_args()
    if not given.names:
        width = max(map(len, known), default=0)
        print("\n".join(f"{name:{width}}  {each.summary}" for name, each in known.items()))
        return 0
    names = list(known) if given.names == ["all"] else given.names
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"there is no campaign '{unknown[0]}': choose from {', '.join(known)}")
    limit = campaign.Limit(given.seconds, given.cases)
    reports = [campaign.run(known[name], given.seed, limit, here=given.here or given.cases == 1) for name in names]
    cases, failures = sum(each.cases for each in reports), sum(len(each.failures) for each in reports)
    print(f"{cases} cases in {len(reports)} campaigns, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":  # the processes of a campaign import this file, too
    sys.exit(main())
