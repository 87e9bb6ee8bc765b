#!/usr/bin/env python3
"""An independent placement: computes the golden vectors again, from the rules as they are documented.

    python3 placement.py golden.json

reads the fleets of the file (its questions), and prints the file with every answer computed anew: hashes, digests and
placements. It shares no code and no table with the product: logarithms come from exact decimals, and the ranking is a
plain sort. The rules are those of the module documentation of `cofferdam-placement`. Python's standard library only.
"""

import json
import math
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

from xxh3 import MASK, xxh3_64

GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    """The finalizer of splitmix64."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def log2_table():
    """floor(2^40 * log2(1 + i / 4096)) for i from 0 to 4096."""
    with localcontext() as context:
        context.prec = 60
        scale = Decimal(2**40) / Decimal(2).ln()
        table = [int((1 + Decimal(i) / 4096).ln() * scale) for i in range(4096)]
    return table + [2**40]


LOG2 = log2_table()


def neg_log2(u):
    """-log2(u / 2^64) with 40 bits behind the point."""
    u = max(u, 1)
    e = u.bit_length() - 1
    mantissa = (u << (64 - e)) & MASK
    i, r = mantissa >> 52, (mantissa >> 20) & 0xFFFFFFFF
    return ((64 - e) << 40) - (LOG2[i] + ((LOG2[i + 1] - LOG2[i]) * r >> 32))


def state(cell):
    return cell.get("state", "active")


def shards(fleet, states):
    """The largest shard of every slot out of cells in these states, as indexes of all cells sorted by id."""
    everybody = sorted(fleet["cells"], key=lambda cell: cell["id"].encode())
    places = [i for i, cell in enumerate(everybody) if state(cell) in states]
    cells = [everybody[i] for i in places]
    size = width(fleet)
    # log / weight orders as log * (common / weight), and that is a whole number.
    common = math.lcm(*(cell["weight"] for cell in cells))
    seeds = [xxh3_64(cell["id"].encode(), fleet["seed"]) for cell in cells]
    rates = [common // cell["weight"] for cell in cells]
    zones = [cell["zone"] for cell in cells]
    if len(set(zones)) == 1:
        zones = list(range(len(cells)))
    if fleet.get("proportional"):
        yield from pairs(fleet, seeds, [cell["weight"] for cell in cells], zones, places)
        return
    for slot in range(fleet["slots"]):
        salt = mix(slot + GOLDEN_GAMMA & MASK)
        ranked = sorted((neg_log2(mix(seeds[i] ^ salt)) * rates[i], i) for i in range(len(cells)))
        shard, taken = [], set()
        for _, i in ranked:
            if zones[i] not in taken:
                shard.append(places[i])
                taken.add(zones[i])
                if len(shard) == size:
                    break
        yield shard


def pairs(fleet, seeds, weights, zones, places):
    """The pair of every slot where inclusion is in proportion, by Brewer's two stages."""
    total = sum(weights)
    of_zone = {zone: sum(w for w, z in zip(weights, zones) if z == zone) for zone in zones}
    half = [zone for zone in sorted(of_zone) if 2 * of_zone[zone] == total]
    first = []
    for weight, zone in zip(weights, zones):
        if half:
            first.append(weight if zone == half[0] else 0)
        else:
            first.append((weight * (total - of_zone[zone]) << 24) // (total - 2 * of_zone[zone]))

    def best(slot, stage, allowed):
        salt = mix((stage << 32) + slot + GOLDEN_GAMMA & MASK)
        ranked = ((Fraction(neg_log2(mix(seeds[i] ^ salt)), w), i) for i, w in enumerate(allowed) if w)
        return min(ranked)[1]

    for slot in range(fleet["slots"]):
        one = best(slot, 0, first)
        other = best(slot, 1, [0 if zones[i] == zones[one] else w for i, w in enumerate(weights)])
        pair = [places[one], places[other]]
        yield pair[::-1] if mix((2 << 32) + slot + GOLDEN_GAMMA & MASK) & 1 else pair


def width(fleet):
    """The size of the largest shard."""
    return max([fleet["shard_size"], *fleet.get("sizes", {}).values()])


def number(value):
    return value.to_bytes(4, "little")


def text(value):
    return number(len(value.encode())) + value.encode()


def indexes(shard):
    return b"".join(i.to_bytes(2, "little") for i in shard)


def digest(fleet, ids, table):
    """The digest, in the first layout where that has words for the whole fleet, and in the second where it has not."""
    pins, quarantine = fleet["pins"], fleet.get("quarantine", {})
    sizes = {tenant: size for tenant, size in fleet.get("sizes", {}).items() if size != fleet["shard_size"]}
    states = {cell["id"]: state(cell) for cell in fleet["cells"]}
    plain = not fleet.get("proportional") and not quarantine and not sizes and set(states.values()) == {"active"}

    def named(shards):
        yield number(len(shards))
        for tenant in sorted(shards, key=str.encode):
            yield text(tenant)
            if not plain:
                yield number(len(shards[tenant]))
            yield indexes([ids.index(cell) for cell in shards[tenant]])

    stream = [text("cofferdam placement 1" if plain else "cofferdam placement 2")]
    stream += [number(fleet["slots"]), number(fleet["shard_size"])]
    stream += [] if plain else [number(width(fleet))]
    stream.append(number(len(ids)))
    for cell in ids:
        stream.append(text(cell) if plain else text(cell) + text(states[cell]))
    stream += [indexes(shard) for shard in table]
    stream += named(pins)
    if not plain:
        stream += named(quarantine)
        stream.append(number(len(sizes)))
        stream += [text(tenant) + number(sizes[tenant]) for tenant in sorted(sizes, key=str.encode)]
    stream += [text("proportional")] if fleet.get("proportional") else []
    return f"{xxh3_64(b''.join(stream)):016x}"


def answer_fleet(fleet):
    """Fills in the fleet's digest, and the slot, shard and reason of each tenant asked for."""
    ids = sorted((cell["id"] for cell in fleet["cells"]), key=str.encode)
    table = list(shards(fleet, {"active"}))
    drains = any(state(cell) == "draining" for cell in fleet["cells"])
    before = list(shards(fleet, {"active", "draining"})) if drains else None
    fleet["digest"] = digest(fleet, ids, table)
    pins, quarantine, sizes = fleet["pins"], fleet.get("quarantine", {}), fleet.get("sizes", {})
    bits = fleet["slots"].bit_length() - 1
    for placed in fleet["placed"]:
        tenant = placed["tenant"]
        slot = xxh3_64(tenant.encode(), fleet["seed"]) >> (64 - bits)
        size = sizes.get(tenant, fleet["shard_size"])
        placed["slot"] = slot
        placed["shard"] = quarantine.get(tenant) or pins.get(tenant) or [ids[i] for i in table[slot][:size]]
        placed["reason"] = "quarantine" if tenant in quarantine else "pin" if tenant in pins else "slot"
        if drains:
            placed["before_drain"] = [ids[i] for i in before[slot][:size]]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        golden = json.load(file)
    for entry in golden["hashes"]:
        entry["xxh3"] = f"{xxh3_64(entry['text'].encode(), entry['seed']):016x}"
    for fleet in golden["fleets"]:
        answer_fleet(fleet)
    json.dump(golden, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
