-- Since when a slot remembers everything. After a wipe, a restart or a failover it does not, until an epoch has gone by.
-- KEYS[1] the epoch: `run_id:start_us`, without expiry. ARGV[1] the server's run id, or '' where the connection does not know.
-- Returns: nothing; defines epoch_start(now). Complexity: O(1), and some microseconds for INFO where ARGV[1] is ''.

local function run_id()
  if ARGV[1] ~= '' then
    return ARGV[1]
  end
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or 'hidden'
end

-- An epoch that begins ahead of the clock was written before the clock went back: how long ago is not known, so a new one
-- begins.
local function epoch_start(now)
  local id = run_id()
  local stored_id, stored = string.match(redis.call('GET', KEYS[1]) or '', '^(%w+):(%d+)$')
  local start = tonumber(stored)
  if stored_id == id and start <= now then
    return start
  end
  redis.call('SET', KEYS[1], id .. ':' .. text(now))
  return now
end
