-- The time in a test's hand, in place of clock.lua: it stands still until the test moves it, and keys end by it.
-- KEYS: those of the script. Beside them, in their slot: `<tag>clock` the time in us, and `<tag>ends` when each key ends.
-- ARGV: none. Returns: nothing; defines now_us() and expire_in(key, us). Complexity: O(keys).

local tag = string.match(KEYS[1], '^%b{}')

local function now_us()
  local now = tonumber(redis.call('GET', tag .. 'clock'))
  for _, key in ipairs(KEYS) do
    local ends = redis.call('HGET', tag .. 'ends', key)
    if ends and tonumber(ends) <= now then
      redis.call('DEL', key)
      redis.call('HDEL', tag .. 'ends', key)
    end
  end
  return now
end

-- As Redis does it: the time of day is cut to milliseconds, the key's life rounded up to them, and its last one is whole.
local function expire_in(key, us)
  local now = tonumber(redis.call('GET', tag .. 'clock'))
  local ms = math.floor(now / 1000) + math.max(1, math.ceil(us / 1000)) + 1
  redis.call('HSET', tag .. 'ends', key, string.format('%.0f', ms * 1000))
end
