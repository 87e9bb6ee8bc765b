-- What operators have overridden, in one hash for each kind: a field for each tenant, whose value is JSON that opens with the time
-- at which it ends, {"until_ms":N,... clock.lua comes before this file, in one text.
-- KEYS[1] the hash. KEYS[2] its version, a number that only grows, and behind a space the us since 1970 at which the first one was
-- written: another one means that the store has forgotten everything between. Both keys lie in one slot.
-- ARGV[1] the server's run id, which is not needed here. ARGV[2] what is done:
--   'look': ARGV[3] a field, or ''. Returns: the time in ms since 1970, the version and its birth (0: none), the field's value
--     ('': none).
--   'all': Returns: the version, its birth, and a field and its value for each.
--   'swap': ARGV[3] the most fields that there may be, ARGV[4] a field, ARGV[5] the value that has to be there, ARGV[6] the one that
--     takes its place ('': none, both times), ARGV[7] the ms since 1970 after which nothing is done (0: never).
--     Returns: 1, or why nothing was done: 0 another value is there, 2 there is no room, 3 it is too late.
--   'keep': ARGV[3] the most fields, then pairs, a field and its value, of which those are written whose field is not there.
--     Returns: how many were, and how many found no room.
-- Complexity: O(fields + pairs); O(1) for a look.
--
-- Whoever writes takes away what has ended. The version outlives every value, so that who was cut off meanwhile sees that
-- something changed, and does not take it for a server that has forgotten everything.

local VERSION_US = 31 * 86400 * 1000000

local what, now = ARGV[2], now_us()

local version, birth = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+)$')
version, birth = tonumber(version) or 0, tonumber(birth) or 0

if what == 'look' then
  local value = ARGV[3] ~= '' and redis.call('HGET', KEYS[1], ARGV[3])
  return { math.floor(now / 1000), version, birth, value or '' }
end
if what == 'all' then
  return { version, birth, redis.call('HGETALL', KEYS[1]) }
end

local function ends_us(value)
  return 1000 * (tonumber(string.match(value, '^{"until_ms":(%d+)')) or 0)
end

local stored, ends, there, n = redis.call('HGETALL', KEYS[1]), {}, '', 0
for at = 1, #stored, 2 do
  local field, end_us = stored[at], ends_us(stored[at + 1])
  if end_us <= now then
    redis.call('HDEL', KEYS[1], field)
  else
    ends[field], n = end_us, n + 1
    there = field == ARGV[4] and stored[at + 1] or there
  end
end

local most, n_done = tonumber(ARGV[3]), 0

-- Whether there was room for it.
local function write(field, value)
  local is_there = ends[field] ~= nil
  if value == '' then
    redis.call('HDEL', KEYS[1], field)
    ends[field], n = nil, is_there and n - 1 or n
  elseif is_there or n < most then
    redis.call('HSET', KEYS[1], field, value)
    ends[field], n = ends_us(value), is_there and n or n + 1
  else
    return false
  end
  n_done = n_done + 1
  return true
end

local answer
if what == 'swap' then
  local late = tonumber(ARGV[7])
  if there ~= ARGV[5] then
    answer = 0
  elseif late > 0 and now > 1000 * late then
    answer = 3
  else
    answer = write(ARGV[4], ARGV[6]) and 1 or 2
  end
else
  local n_left_out = 0
  for at = 4, #ARGV, 2 do
    if not ends[ARGV[at]] and not write(ARGV[at], ARGV[at + 1]) then
      n_left_out = n_left_out + 1
    end
  end
  answer = { n_done, n_left_out }
end

if n_done > 0 then
  redis.call('SET', KEYS[2], string.format('%.0f %.0f', math.max(now, 1 + version), birth > 0 and birth or now))
  expire_in(KEYS[2], VERSION_US)
  local last = now
  for _, end_us in pairs(ends) do
    last = math.max(last, end_us)
  end
  expire_in(KEYS[1], last - now)
end
return answer
