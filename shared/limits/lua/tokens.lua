-- Tokens: how fast. A bucket of `capacity` tokens that fills with n tokens in p microseconds.
-- KEYS: a hash: `l` the level in 1/p tokens, which may be below zero; `t` its time in us; `p` the period that it is in;
-- the accounts; and the mark of recall.lua. A bucket that is full and has no accounts is no key.
-- ARGV: n, p, capacity, seq (0: no account), held, spent, want, min, need, parts, keeps (as in permits.lua); capacity * p is at
-- most 2^53.
-- Returns: status (0, or 1 STALE), granted, level, outstanding, wait_us (-1: never), wanted, contended (as recall.lua says).
-- Complexity: O(accounts).
--
-- At all times level + outstanding <= capacity, so that any time t admits at most capacity + rate * t.

local tokens = { args = { 'n', 'p', 'capacity', 'seq', 'held', 'spent', 'want', 'min', 'need', 'parts', 'keeps' } }

-- How long a level below zero takes to pass it, and what it is then: below n. A difference from below zero may exceed 2^53,
-- so what crosses zero goes in two steps.
local function to_zero(level, n)
  return ceil_div(-level, n), (n - (-level) % n) % n
end

-- Microseconds until `level` is at least `target`, which is not below zero.
local function time_until(level, target, n)
  local us = 0
  if level < 0 then
    us, level = to_zero(level, n)
  end
  return us + math.max(0, ceil_div(target - level, n))
end

-- `level` after `elapsed` microseconds, at most `full`.
local function grown(level, full, n, elapsed)
  if elapsed >= time_until(level, full, n) then
    return full
  end
  if level < 0 then
    local us, over = to_zero(level, n)
    if elapsed >= us then
      return over + (elapsed - us) * n
    end
  end
  return level + elapsed * n
end

-- `level` and `count` tokens, within one capacity of zero on either side. In two steps, for the same reason.
local function moved(level, count, op)
  count = clamp(count, -2 * op.capacity, 2 * op.capacity)
  local first = clamp(count, -op.capacity, op.capacity)
  level = clamp(level + first * op.p, -op.full, op.full)
  return clamp(level + (count - first) * op.p, -op.full, op.full)
end

-- What the level can be beside what is outstanding. Where a lowered limit makes that less than nothing, it is nothing.
local function ceiling(op, outstanding)
  return math.max(0, op.capacity - outstanding) * op.p
end

-- `level` after the time from `from` to now. What an account held counts until the account ended, however late that is seen:
-- else a bucket that nobody looked at would have flowed over what was outstanding, and be full the moment it is spent.
local function grown_since(level, from, op, call)
  local accounts, ended, outstanding = op.accounts, {}, op.accounts.outstanding
  for _, account in ipairs(accounts.list) do
    if account.ends <= call.now then
      ended[#ended + 1] = account
      outstanding = outstanding + account.outstanding
    end
  end
  table.sort(ended, function(a, b) return a.ends < b.ends end)
  for _, account in ipairs(ended) do
    local ends = math.max(from, account.ends)
    level = math.min(grown(level, op.full, op.n, ends - from), ceiling(op, outstanding))
    from, outstanding = ends, outstanding - account.outstanding
  end
  return grown(level, op.full, op.n, call.now - from)
end

-- Brings the level to the present and to the policy at hand.
local function bring(op, call)
  local fields, epoch_age = op.fields, call.now - call.start
  op.at, op.ahead = call.now, 0
  if not fields.l then
    op.level = grown(0, op.full, op.n, epoch_age)
    return
  end
  local level, stored_p = tonumber(fields.l), tonumber(fields.p)
  if stored_p ~= op.p then
    level = scale(level, op.p, stored_p)
  end
  level = clamp(level, -op.full, op.full)
  local stored_at = tonumber(fields.t)
  if stored_at > call.now + op.fill then
    -- The clock went back so far that the stored time means nothing any more: the level is kept from now on.
    op.is_reset = true
  elseif stored_at > call.now then
    op.at, op.ahead = stored_at, stored_at - call.now
  else
    level = grown_since(level, stored_at, op, call)
  end
  op.level = level
end

function tokens.read(op, call)
  read_accounts(op, call)
  op.status, op.grant = 0, 0
  op.full = op.capacity * op.p
  op.fill = ceil_div(op.full, op.n)
  bring(op, call)
  -- Before the report: what is given back must find the room that it was taken from.
  op.level = math.min(op.level, ceiling(op, op.accounts.outstanding))
  op.is_old = is_old(op)
  if not op.is_old then
    op.level = math.min(moved(op.level, book(op), op), ceiling(op, op.accounts.outstanding))
  end
  local available = math.max(0, math.floor(op.level / op.p))
  op.wait = 0
  if op.min > op.capacity then
    op.wait = -1
  elseif op.min > available then
    op.wait = op.ahead + time_until(op.level, op.min * op.p, op.n)
  end
  if not op.is_old then
    op.grant = share(op, available)
  end
  op.met = op.min == 0 or op.grant >= op.min
end

-- How long the key says something that no key would not: until the bucket is full, where what is outstanding flows in only
-- after the accounts have ended; and until a bucket that is not there counts as full.
local function lifetime(op, call)
  local accounts = op.accounts
  local us = op.ahead + time_until(op.level, op.full, op.n)
  if accounts.last > call.now then
    local to_ceiling = op.ahead + time_until(op.level, ceiling(op, accounts.outstanding), op.n)
    local after = ceil_div(math.min(accounts.outstanding, op.capacity) * op.p, op.n)
    us = math.max(to_ceiling, accounts.last - call.now) + after
  end
  return math.max(us, call.start + op.fill - call.now, remembered_until(accounts, call) - call.now)
end

function tokens.write(op, call, is_granted, out)
  local grant = is_granted and op.grant or 0
  if not op.is_old and (op.seq > 0 or grant > 0 or op.spent ~= 0) then
    op.level = op.level - grant * op.p
    local is_full = op.level >= op.full and call.now - call.start >= op.fill
    if is_full and op.seq == 0 and op.accounts.last == 0 and op.accounts.buried == 0 then
      redis.call('DEL', op.key)
    else
      write_accounts(op, call, { 'l', text(op.level), 't', text(op.at), 'p', text(op.p) }, grant)
      expire_in(op.key, lifetime(op, call))
    end
  elseif op.is_reset and not op.is_old and op.wait > 0 then
    -- A denial changes nothing but this: without it the wait would not be enough.
    redis.call('HSET', op.key, 't', text(op.at))
  end
  recall(op, call, op.fields.m, op.accounts.idle)
  out(op.status, grant, op.level, op.accounts.outstanding, op.wait, op.accounts.wanted + op.want, op.contended)
end
