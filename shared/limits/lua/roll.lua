-- The roll call of a fleet's sessions: one says that it lives, and hears who does.
-- KEYS[1] the roll, a sorted set of sessions by the time at which they end. ARGV[1] session, ARGV[2] ttl_us.
-- Returns: the live sessions, this one included. Complexity: O(n) for n sessions.

local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ttl_ms = math.ceil(tonumber(ARGV[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now_ms))
redis.call('ZADD', KEYS[1], string.format('%.0f', now_ms + ttl_ms), ARGV[1])
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl_ms))
return redis.call('ZRANGE', KEYS[1], 0, -1)
