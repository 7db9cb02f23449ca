"""Philox4x32-10: four 32-bit words of counter-based pseudo-random numbers from a 128-bit counter and a 64-bit key.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). Ten rounds of two 32 x 32 -> 64 bit
products; the key is advanced by two constants between rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from oa._kernel.emit.reg import Reg

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox4x32_10(counter: Sequence[Reg], key: Sequence[Reg]) -> tuple[Reg, Reg, Reg, Reg]:
    """The four words of one block; all registers are U32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for r in range(ROUNDS):
        if r:
            k0, k1 = k0 + KEY_STEPS[0], k1 + KEY_STEPS[1]
        high0, low0 = c0.two("umulhi", MULTIPLIERS[0]), c0 * MULTIPLIERS[0]
        high1, low1 = c2.two("umulhi", MULTIPLIERS[1]), c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


def word(seed_low: Reg, seed_high: Reg, draw: Reg, index: Reg) -> Reg:
    """The word of element `index` in draw number `draw`: lane index % 4 of the block at counter (index / 4, draw, 0, 0).

    Where `index` is 4 i + constant, the lane is known and four neighbours share the rounds.
    """
    block, lane = index >> 2, index & 3
    words = philox4x32_10((block, draw, index.like(0), index.like(0)), (seed_low, seed_high))
    if lane.v.const is not None:
        return words[lane.v.const]
    odd = (lane & 1).ne(0)
    return (lane & 2).ne(0).where(odd.where(words[3], words[2]), odd.where(words[1], words[0]))
