"""XXH3 with 64 bits in plain Python, written from its specification: hashes, and nothing about placement.

Inputs above 240 bytes are hashed with seed 0 only, which is all that a digest needs.
"""

import struct

MASK = 0xFFFFFFFFFFFFFFFF
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, PRIME64_2, PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
PRIME64_4, PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PRIME_MX1, PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def u32(data, at):
    return int.from_bytes(data[at : at + 4], "little")


def u64(data, at):
    return int.from_bytes(data[at : at + 8], "little")


def swap(value, size):
    return int.from_bytes(value.to_bytes(size, "little"), "big")


def rotate(value, bits):
    return ((value << bits) | (value >> (64 - bits))) & MASK


def fold(a, b):
    """Both halves of the 128-bit product, in one word."""
    product = a * b
    return (product ^ (product >> 64)) & MASK


def avalanche(h):
    h ^= h >> 37
    h = h * PRIME_MX1 & MASK
    return h ^ (h >> 32)


def avalanche_xxh64(h):
    h ^= h >> 33
    h = h * PRIME64_2 & MASK
    h ^= h >> 29
    h = h * PRIME64_3 & MASK
    return h ^ (h >> 32)


def mix16(data, at, secret_at, seed):
    low = u64(data, at) ^ (u64(SECRET, secret_at) + seed & MASK)
    high = u64(data, at + 8) ^ (u64(SECRET, secret_at + 8) - seed & MASK)
    return fold(low, high)


def up_to_16(data, seed):
    n = len(data)
    if n == 0:
        return avalanche_xxh64(seed ^ u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        word = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche_xxh64(word ^ ((u32(SECRET, 0) ^ u32(SECRET, 4)) + seed & MASK))
    if n <= 8:
        seed ^= swap(seed & 0xFFFFFFFF, 4) << 32
        flip = (u64(SECRET, 8) ^ u64(SECRET, 16)) - seed & MASK
        h = (u32(data, n - 4) + (u32(data, 0) << 32)) ^ flip
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = h * PRIME_MX2 & MASK
        h ^= (h >> 35) + n
        h = h * PRIME_MX2 & MASK
        return h ^ (h >> 28)
    low = u64(data, 0) ^ ((u64(SECRET, 24) ^ u64(SECRET, 32)) + seed & MASK)
    high = u64(data, n - 8) ^ ((u64(SECRET, 40) ^ u64(SECRET, 48)) - seed & MASK)
    return avalanche(n + swap(low, 8) + high + fold(low, high) & MASK)


def up_to_128(data, seed):
    n = len(data)
    acc = n * PRIME64_1
    for i in range((n - 1) // 32 + 1):
        acc += mix16(data, 16 * i, 32 * i, seed) + mix16(data, n - 16 * (i + 1), 32 * i + 16, seed)
    return avalanche(acc & MASK)


def up_to_240(data, seed):
    n = len(data)
    acc = n * PRIME64_1
    for i in range(8):
        acc += mix16(data, 16 * i, 16 * i, seed)
    acc = avalanche(acc & MASK)
    for i in range(8, n // 16):
        acc += mix16(data, 16 * i, 16 * (i - 8) + 3, seed)
    acc += mix16(data, n - 16, 136 - 17, seed)
    return avalanche(acc & MASK)


def accumulate(acc, data, at, secret_at):
    lanes = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", SECRET, secret_at)
    for i in range(8):
        keyed = lanes[i] ^ keys[i]
        acc[i ^ 1] = acc[i ^ 1] + lanes[i] & MASK
        acc[i] = acc[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & MASK


def long_input(data):
    n = len(data)
    acc = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
    # 16 stripes of 64 bytes are a block; the last stripe is hashed apart, from the end.
    for stripe in range((n - 1) // 64):
        accumulate(acc, data, 64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            for i in range(8):
                acc[i] = (acc[i] ^ (acc[i] >> 47) ^ u64(SECRET, 128 + 8 * i)) * PRIME32_1 & MASK
    accumulate(acc, data, n - 64, 121)
    h = n * PRIME64_1
    for i in range(4):
        h += fold(acc[2 * i] ^ u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ u64(SECRET, 19 + 16 * i))
    return avalanche(h & MASK)


def xxh3_64(data, seed=0):
    """XXH3 with 64 bits of `data`, which is bytes."""
    if len(data) <= 16:
        return up_to_16(data, seed)
    if len(data) <= 128:
        return up_to_128(data, seed)
    if len(data) <= 240:
        return up_to_240(data, seed)
    if seed != 0:
        raise ValueError(f"{len(data)} bytes with a seed: only seed 0 above 240 bytes")
    return long_input(data)
