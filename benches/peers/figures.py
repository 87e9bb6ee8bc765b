"""What rounds say together: medians, ratios of pairs, their interval, and the verdict on a bound."""

from math import comb
from statistics import median


def interval(values):
    """The median's interval of 95 % out of order statistics, as the sign test has it: it supposes nothing of how the
    values are spread. Fewer than six values have none."""
    ordered, n = sorted(values), len(values)
    skip, tail = 0, 0
    for k in range(n // 2):
        tail += comb(n, k)
        if 2 * tail / 2**n > 0.05:
            break
        skip = k + 1
    return (ordered[skip - 1], ordered[n - skip]) if skip else None


def verdict(ends, bound):
    if bound is None:
        return ""
    if ends is None:
        return "too few rounds"
    if ends[1] <= bound:
        return "met"
    return "missed" if ends[0] > bound else "undecided"


def pairs(ours, theirs):
    """Ratios, round by round: what troubled the machine troubled both sides of one."""
    return [a / b for a, b in zip(ours, theirs) if b]


def compared(what, ratios, bound):
    ends = interval(ratios)
    shown = f"{ends[0]:.3f} to {ends[1]:.3f}" if ends else f"({min(ratios):.3f} to {max(ratios):.3f})"
    wanted = "" if bound is None else f"{bound:g}"
    return [what, f"{median(ratios):.3f}", shown, wanted, verdict(ends, bound)]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
