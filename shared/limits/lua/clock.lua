-- The time, and keys that end by it. A test puts another file in place of this one, with the time in its hand.
-- KEYS: whatever the script is given. ARGV: none.
-- Returns: nothing; defines now_us() and expire_in(key, us). Complexity: O(1).

-- Microseconds since 1970: below 2^53 until the year 2255.
local function now_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- PEXPIRE takes no fraction, and at 0 deletes: a key lives for at least as long as was asked.
local function expire_in(key, us)
  redis.call('PEXPIRE', key, string.format('%.0f', math.max(1, math.ceil(us / 1000))))
end
