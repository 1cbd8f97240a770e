"""A slow reference of batches that a policy begins: lists of waiting cases, and events one by one.

Cases cross a river together, by the ferry or in the clerk's boat, and the clerk then checks them one by one. Times of
service are constant. Nothing is shared with the simulator.
"""

import math

CROSS, CHECK = 0, 1
PAIRS = [(CROSS, "ferry"), (CROSS, "clerk"), (CHECK, "clerk")]
NEEDS = {(CROSS, "ferry"): 2.0, (CROSS, "clerk"): 3.1, (CHECK, "clerk"): 0.47}


class River:
    """An episode, decision by decision.

    Args:
        times: times of arrival.
        size: most cases that cross together.
        longest: time after which a crossing that is not full is a moment to decide.
        horizon: end of the episode.
    """

    def __init__(self, times, size, longest, horizon):
        self.times, self.size, self.longest, self.horizon = list(times), size, longest, horizon
        self.now, self.arrived, self.ended = 0.0, 0, False
        self.waiting = {CROSS: [], CHECK: []}  # (case, since), the longest first
        self.work = {}  # person -> (end, activity, cases)
        self.wakes, self.done, self.began = [], {}, {}
        self._run()

    def feasible(self):
        """Return the numbers of the pairs that are possible now."""
        return [i for i, (activity, person) in enumerate(PAIRS) if self.waiting[activity] and person not in self.work]

    def open_cases(self):
        """Return the number of open cases."""
        return self.arrived - len(self.done)

    def gathers(self):
        """Return the number of cases that no full crossing has."""
        return len(self.waiting[CROSS]) % self.size

    def step(self, action):
        """Begin a pair, or postpone; return the integral of the open cases up to the next decision."""
        self.area = 0.0
        if action < len(PAIRS):
            activity, person = PAIRS[action]
            most = self.size if activity == CROSS else 1
            begun, self.waiting[activity] = self.waiting[activity][:most], self.waiting[activity][most:]
            for case, _ in begun:
                self.began[case, activity] = self.now
            self.work[person] = self.now + NEEDS[activity, person], activity, [case for case, _ in begun]
            if self.feasible():
                return 0.0
        self._run()
        return self.area

    def _run(self):
        self.area = 0.0
        while not self.ended:
            self._event()
            if self.feasible():
                return

    def _event(self):
        ends = {person: end for person, (end, _, _) in self.work.items()}
        first = min(ends, key=ends.get) if ends else None
        end = ends.get(first, math.inf)
        wake = min(self.wakes, default=math.inf)
        arrival = self.times[self.arrived] if self.arrived < len(self.times) else math.inf
        time = min(end, wake, arrival)
        self.area += self.open_cases() * (min(time, self.horizon) - self.now)
        self.now = min(time, self.horizon)
        if time >= self.horizon:
            self.ended = True
        elif time == end:
            _, activity, cases = self.work.pop(first)
            for case in cases:
                if activity == CROSS:
                    self.waiting[CHECK].append((case, self.now))
                else:
                    self.done[case] = self.now
        elif time == wake:
            self.wakes.remove(wake)
        else:
            if self.gathers() == 0:
                self.wakes.append(self.now + self.longest)
            self.waiting[CROSS].append((self.arrived, self.now))
            self.arrived += 1
