"""Jobs that are cancelled at any moment, and jobs whose budget is too small: ``make endings CANCELS=100 CAPS=50 SEED=1``.

Jobs of ROWS rows run side by side on real workers, with a provider that counts what arrives of each. A cancelled job may
still make the calls that were reserved when the cancel was answered, and no other; one that its budget pauses has spent
no more than it might, and has nothing reserved. A table is printed; the exit code is 1 where that did not hold.
"""

import argparse
import random
import re
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property

from polling import until
from provider import Provider, good, tokens
from ragassay.llm import Prices
from ragassay.service.redis import RedisStore
from service.chaos_checks import MICRO_USD, CapWatch
from service.running import Service, rows

MODEL, ROWS, LATENCY_S, AT_ONCE = "gpt-4o-mini", 60, 0.1, 4
LONGEST_WAIT_S = 2.0  # before a cancel: a job of ROWS rows takes about as long beside three others
QUIET_S = 1.0  # after which no call of a cancelled job is on its way any more
OF = re.compile(r"How heavy is (\w+) number")


class Endings:
    """The service, its provider and what was seen. ``breaches`` is what did not hold."""

    def __init__(self, seed=1):
        self.chance, self.breaches, self.seen = random.Random(seed), [], Counter()
        self.arrived, self.bills, self._lock, self._prices = Counter(), Counter(), threading.Lock(), Prices()

    def __enter__(self):
        with ExitStack() as opened:
            provider = opened.enter_context(Provider(then=self._answer, latency_s=LATENCY_S))
            self.service = opened.enter_context(Service(api_base=provider.url, workers=2, traced=False))
            self.service.ready()
            self.store = RedisStore(self.service.redis_url)
            opened.callback(self.store.redis.close)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_):
        self._opened.close()

    def _answer(self, seen):
        of, answer = OF.search(seen.user).group(1), good(seen)
        with self._lock:
            self.arrived[of] += 1
            self.bills[of] += self._prices.cost(MODEL, *tokens(seen, answer))
        return answer

    def _submit(self, of, usd=None):
        budget = None if usd is None else {"usd": usd}
        return self.service.submit(rows(ROWS, of), MODEL, performance={"cache": False}, budget=budget)

    def _amounts(self, job):
        names = ("most_usd", "spent_usd", "open_usd", "in_flight", "uncertain_calls")
        amounts = self.store.redis.hmget(self.store.key(job, "meta"), *names)
        return dict(zip(names, (float(one or 0) for one in amounts), strict=True))

    # --- cancels ----------------------------------------------------------------------------------------------

    def cancel(self, number, wait_s):
        """One job, cancelled after so many seconds."""
        of = f"cancelled{number}"
        job = self._submit(of)
        time.sleep(wait_s)
        answer = self.service.answered("POST", f"/v1/jobs/{job}/cancel", again=(503,))
        amounts, before = self._amounts(job), self.arrived[of]
        reserved = (
            amounts["in_flight"] + amounts["uncertain_calls"]
        )  # a cancel books open calls: they may have been paid
        if answer.status_code == 409:
            self.seen["had ended before"] += 1
            return
        time.sleep(QUIET_S)
        after = self.arrived[of] - before
        self.seen["cancelled"] += 1
        self.seen["while some call was reserved"] += reserved > 0
        self.seen["calls that arrived later"] += after
        self.seen["calls reserved at the cancel"] += int(reserved)
        if after > reserved:
            self.breaches.append(f"{of}: {after} calls after the cancel, {reserved:.0f} were reserved")
        self._expect_nothing_open(of, job)
        if (status := self.service.job(job)["status"]) != "cancelled":
            self.breaches.append(f"{of}: it is {status}")

    # --- caps -------------------------------------------------------------------------------------------------

    @cached_property
    def whole_usd(self):
        """What a job costs that may take all it needs, in USD."""
        report = self.service.finished(self._submit("whole"), within_s=120)
        return report["systems"]["default"]["evaluation"]["usage"]["cost_usd"]

    def cap(self, number, usd):
        """One job that may spend so much, which is not enough."""
        of = f"capped{number}"
        job = self._submit(of, usd)
        watch = CapWatch(self.store)
        with watch.over(job):
            until(lambda: self.service.job(job)["status"] == "paused", 120, f"the end of {of}")
        time.sleep(QUIET_S)
        self.seen["paused by their budget"] += 1
        self.seen["looks at their caps"] += watch.looks
        self.breaches += [f"{of}: {breach}" for breach in watch.breaches]
        bill, spent = self.bills[of], self._amounts(job)["spent_usd"]
        if abs(bill - spent) > MICRO_USD:
            self.breaches.append(f"{of}: the provider's bill is {bill} USD, {spent} are counted")
        if bill > usd + MICRO_USD:
            self.breaches.append(f"{of}: {bill} USD spent, of {usd}")
        self.seen["calls of them"] += self.arrived[of]
        self.seen["micro-dollars that they might spend"] += round(1e6 * usd)
        self.seen["micro-dollars on the provider's bills"] += round(1e6 * bill)
        self._expect_nothing_open(of, job)

    def _expect_nothing_open(self, of, job):
        amounts = self._amounts(job)
        if amounts["in_flight"] or amounts["open_usd"] > MICRO_USD:
            self.breaches.append(f"{of}: something is reserved at the end: {amounts}")

    # --- all of it --------------------------------------------------------------------------------------------

    def run(self, cancels, caps):
        """So many of each, a few side by side."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waits = [self.chance.uniform(0, LONGEST_WAIT_S) for _ in range(cancels)]
            list(pool.map(self.cancel, range(cancels), waits))
            if caps:
                whole = self.whole_usd
                list(pool.map(self.cap, range(caps), [whole * self.chance.uniform(0.1, 0.9) for _ in range(caps)]))

    def told(self):
        """Print what was seen; the exit code."""
        print("\n".join(["| | |", "|---|---|", *(f"| {name} | {n:,} |" for name, n in self.seen.items())]))
        print(f"| breaches | {len(self.breaches)} |")
        for breach in self.breaches:
            print(f"  BREACH: {breach}")
        return int(bool(self.breaches))


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--cancels", type=int, default=100)
    asked.add_argument("--caps", type=int, default=50)
    asked.add_argument("--seed", type=int, default=1)
    chosen = asked.parse_args()
    with Endings(chosen.seed) as endings:
        endings.run(chosen.cancels, chosen.caps)
        sys.exit(endings.told())


if __name__ == "__main__":
    main()
