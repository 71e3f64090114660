"""`fscil bench --quick`: of all methods those that fit into twenty minutes, by what they took when last measured."""

from collections.abc import Mapping
from dataclasses import replace

from fscil.experiments.bench.plan import BASELINE, FLOOR, Plan, PlannedMethod
from fscil.experiments.engines.forecast import spoken

MINUTES = 20
ALWAYS = (BASELINE, FLOOR, "yourself")  # what the others are compared with, and what the project is about


def quick(plan: Plan, known: Mapping[str, float]) -> Plan:
    """`known`: seconds by NETWORK/base and NETWORK/METHOD, of one draw. The cheapest come first; a network counts once.

    Of two methods that cost alike the first of the registry is taken, so that the choice is always the same.
    """
    chosen = [planned for planned in plan.methods if planned.method in ALWAYS]
    left = [planned for planned in plan.methods if planned.method not in ALWAYS]
    left_out = dict(plan.left_out)
    trained: set[str] = set()
    spent = 0.0
    for planned in chosen:
        spent += _seconds(planned, plan, known, trained) or 0.0
        trained.add(planned.network.key)
    for planned in list(left):
        if _seconds(planned, plan, known, trained) is None:
            left.remove(planned)
            left_out[planned.method] = "How long it takes was not measured yet, so --quick leaves it out."
    while left:
        costs = [_seconds(planned, plan, known, trained) or 0.0 for planned in left]
        cheapest = costs.index(min(costs))
        if spent + costs[cheapest] > 60 * MINUTES:
            break
        spent += costs[cheapest]
        planned = left.pop(cheapest)
        trained.add(planned.network.key)
        chosen.append(planned)
    for planned in left:
        more = _seconds(planned, plan, known, trained) or 0.0
        left_out[planned.method] = f"It would take {spoken(more)} more; --quick stops at {MINUTES} minutes."
    kept = tuple(planned for planned in plan.methods if planned in chosen)
    return replace(plan, methods=kept, left_out=left_out)


def _seconds(planned: PlannedMethod, plan: Plan, known: Mapping[str, float], trained: set[str]) -> float | None:
    """That the method adds; None where nothing like it was measured."""
    network = planned.network
    sessions = known.get(f"{network.key}/{planned.method}")
    base = 0.0 if network.checkpoint or network.key in trained else known.get(f"{network.key}/base")
    return None if sessions is None or base is None else base + sessions * plan.request.draws
