-- Windows: a quota over a long time, by two counters. What counts as used is previous * (1 - elapsed / window) + current.
-- KEYS: a hash: `i` the index of the window, `c` what it has used, `p` what the one before used; the accounts; and the
-- mark of recall.lua.
-- ARGV: window_s, limit, seq (0: no account), held, spent, want, min, need, parts, keeps (as in permits.lua); the limit is at most
-- 2^36.
-- Returns: status (0, or 1 STALE), granted, used, wait_us (-1: never), outstanding, contended (as recall.lua says).
-- Complexity: O(accounts).
--
-- Windows begin at multiples of their length since 1970. Elapsed time counts in whole seconds, rounded down, and what is used is
-- rounded up. What is outstanding counts as used in the window of now, since that is where it may still be spent.

local window = { args = { 'window_s', 'limit', 'seq', 'held', 'spent', 'want', 'min', 'need', 'parts', 'keeps' } }

-- More than any limit, so that nothing is lost but exactness that nobody needs.
local MOST = 2 ^ 37 - 1

-- What accounts that ended after `from` and no later than `to` hold.
local function held_between(accounts, from, to)
  local held = 0
  for _, account in ipairs(accounts.list) do
    if account.ends > from and account.ends <= to then
      held = held + account.outstanding
    end
  end
  return held
end

-- Brings the counters to the window of now.
local function roll(op, call)
  local fields, index = op.fields, math.floor(call.now / (op.window_s * 1000000))
  op.index, op.current, op.previous = index, tonumber(fields.c) or 0, tonumber(fields.p) or 0
  local stored = tonumber(fields.i) or index
  if stored == index + 1 then
    -- The clock went back over the edge of a window: it is waited for, and until then no time has elapsed.
    op.index = stored
  elseif stored < index then
    local begins = index * op.window_s * 1000000
    local moves = held_between(op.accounts, begins, math.huge)
    if stored == index - 1 then
      op.previous = math.max(0, op.current - moves)
    else
      op.previous = held_between(op.accounts, begins - op.window_s * 1000000, begins)
    end
    op.current = moves
  end
  local now_s = math.floor(call.now / 1000000)
  op.elapsed = math.max(0, now_s - op.index * op.window_s)
end

-- Seconds into a window after which at most `room` of `count`, used in the window before, counts as used.
local function fades_in(count, room, window_s)
  local excess = count - room
  if excess <= 0 then
    return 0
  end
  local seconds = scale(excess, window_s, count)
  if scale(count, seconds, window_s) < excess then
    seconds = seconds + 1
  end
  return seconds
end

-- When `min` would pass if nobody took anything from now on.
local function wait(op, call)
  local room = op.limit - op.min
  if room < 0 then
    return -1
  end
  if op.used <= room then
    return 0
  end
  local at_s = op.index * op.window_s
  local here = op.current <= room and fades_in(op.previous, room - op.current, op.window_s) or op.window_s
  if here < op.window_s then
    at_s = at_s + here
  else
    at_s = at_s + op.window_s + fades_in(op.current, room, op.window_s)
  end
  return at_s * 1000000 - call.now
end

-- What the report of `op` gives back to the window of now. What an account left unspent that ended in a window before was used
-- there, and this one has nothing of it.
local function returned(op)
  local back, grave = book(op), op.accounts.grave
  local is_past = op.seq > 0 and not op.accounts.own and grave and grave.ends < op.index * op.window_s * 1000000
  return is_past and math.min(0, back) or back
end

local function count_used(op)
  op.used = op.current + op.previous - scale(op.previous, op.elapsed, op.window_s)
end

function window.read(op, call)
  read_accounts(op, call)
  op.status, op.grant = 0, 0
  roll(op, call)
  op.is_old = is_old(op)
  if not op.is_old then
    -- An account that is registered after a wipe holds what no counter knows.
    op.current = clamp(op.current - returned(op), math.min(op.accounts.outstanding, MOST), MOST)
  end
  count_used(op)
  local available = math.max(0, op.limit - op.used)
  if not op.is_old then
    op.grant = share(op, available)
  end
  op.wait = wait(op, call)
  op.met = op.min == 0 or op.grant >= op.min
end

function window.write(op, call, is_granted, out)
  local grant = is_granted and op.grant or 0
  if not op.is_old and (op.seq > 0 or grant > 0 or op.spent ~= 0) then
    op.current = math.min(op.current + grant, MOST)
    count_used(op)
    if op.current == 0 and op.previous == 0 and op.seq == 0 and op.accounts.last == 0
      and op.accounts.buried == 0 then
      redis.call('DEL', op.key)
    else
      write_accounts(op, call, { 'i', text(op.index), 'c', text(op.current), 'p', text(op.previous) }, grant)
      local window_us = op.window_s * 1000000
      local last = math.max(op.index, math.floor(op.accounts.last / window_us))
      expire_in(op.key, math.max((last + 2) * window_us, remembered_until(op.accounts, call)) - call.now)
    end
  end
  recall(op, call, op.fields.m, op.accounts.idle)
  out(op.status, grant, op.used, op.wait, op.accounts.outstanding, op.contended)
end
