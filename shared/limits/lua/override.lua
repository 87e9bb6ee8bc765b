-- What operators have overridden, in one hash for each kind: a field for each tenant, whose value is JSON that opens with the time
-- at which it ends, {"until_ms":N,... clock.lua comes before this file, in one text.
-- KEYS[1] the hash. KEYS[2] its version, a number that only grows. Both lie in one slot.
-- ARGV[1] the server's run id, which is not needed here. ARGV[2] what is done: 'put'; 'keep', which leaves what is there; 'drop'.
-- ARGV[3] the most fields that there may be. Then pairs: a field and its value ('' for 'drop').
-- Returns: how many pairs were done, how many found no room, how many fields there are now. Complexity: O(fields + pairs).
--
-- Whoever writes takes away what has ended. The version outlives every value, so that who was cut off meanwhile sees that
-- something changed, and does not take it for a server that has forgotten everything.

local VERSION_US = 31 * 86400 * 1000000

local what, most, now = ARGV[2], tonumber(ARGV[3]), now_us()

local function ends_us(value)
  return 1000 * (tonumber(string.match(value, '^{"until_ms":(%d+)')) or 0)
end

local stored, ends, n = redis.call('HGETALL', KEYS[1]), {}, 0
for at = 1, #stored, 2 do
  local end_us = ends_us(stored[at + 1])
  if end_us > now then
    ends[stored[at]], n = end_us, n + 1
  else
    redis.call('HDEL', KEYS[1], stored[at])
  end
end

local n_done, n_left_out = 0, 0
for at = 4, #ARGV, 2 do
  local field, value = ARGV[at], ARGV[at + 1]
  local is_there = ends[field] ~= nil
  if what == 'drop' and is_there then
    redis.call('HDEL', KEYS[1], field)
    ends[field], n, n_done = nil, n - 1, n_done + 1
  elseif what == 'put' or (what == 'keep' and not is_there) then
    if is_there or n < most then
      redis.call('HSET', KEYS[1], field, value)
      ends[field], n, n_done = ends_us(value), is_there and n or n + 1, n_done + 1
    else
      n_left_out = n_left_out + 1
    end
  end
end

if n_done > 0 then
  local version = math.max(now, 1 + (tonumber(redis.call('GET', KEYS[2]) or 0) or 0))
  redis.call('SET', KEYS[2], string.format('%.0f', version))
  expire_in(KEYS[2], VERSION_US)
  local last = now
  for _, end_us in pairs(ends) do
    last = math.max(last, end_us)
  end
  expire_in(KEYS[1], last - now)
end
return { n_done, n_left_out, n }
