-- The time in a test's hand, in place of clock.lua, one for every slot: it stands still until the test moves it.
-- KEYS: those of the script. Beside them `clock`, the time in us, which is not declared: one server has every slot.
-- ARGV: none. Returns: nothing; defines now_us() and expire_in(key, us). Complexity: O(keys).

local function now_us()
  local now = tonumber(redis.call('GET', 'clock'))
  for _, key in ipairs(KEYS) do
    local ends = redis.call('HGET', 'ends', key)
    if ends and tonumber(ends) <= now then
      redis.call('DEL', key)
      redis.call('HDEL', 'ends', key)
    end
  end
  return now
end

local function expire_in(key, us)
  local now = tonumber(redis.call('GET', 'clock'))
  local ms = math.floor(now / 1000) + math.max(1, math.ceil(us / 1000)) + 1
  redis.call('HSET', 'ends', key, string.format('%.0f', ms * 1000))
end
