-- Accounts: what each session was granted and still holds, kept beside the level that it was granted from.
-- KEYS: a hash, with a field `s<session>` for each account. ARGV: as sync.lua says.
-- Returns: nothing; defines the functions below. Complexity: O(fields) for reading, O(1) otherwise.
--
-- A field is `outstanding:spent:seq:expires_us:want:keeps`. What an account holds counts as spent once its time has passed; it
-- then stays one more TTL as a tombstone, `d:outstanding:spent:seq:expires_us`, that counts nothing: a report that comes late is
-- booked against it, and so never charged twice. A session without either is registered: it is believed what it holds, and gets
-- nothing for it.

-- A time further ahead than any session of this or twice this TTL could have written is from before the clock went back.
local function ends_at(expires, call)
  return math.min(expires, call.now + 2 * call.ttl)
end

-- Keeps what is left of an account that has ended, or drops it one TTL later.
local function bury(accounts, name, grave, has_changed, call)
  if grave.ends + call.ttl <= call.now then
    accounts.drop[#accounts.drop + 1] = name
    return
  end
  if has_changed then
    accounts.set[#accounts.set + 1] = name
    accounts.set[#accounts.set + 1] = 'd:' .. text(grave.outstanding) .. ':' .. text(grave.spent) .. ':' .. text(grave.seq)
      .. ':' .. text(grave.ends)
  end
  accounts.buried = math.max(accounts.buried, grave.ends + call.ttl)
  if name == 's' .. call.session then
    accounts.grave = grave
  end
end

-- Adds an account that lives.
local function add_live(accounts, name, account, expires, want, keeps, op, call)
  accounts.outstanding = accounts.outstanding + account.outstanding
  local mine = name == 's' .. call.session
  if not mine or op.seq == 0 then
    accounts.last = math.max(accounts.last, account.ends)
  end
  if account.ends < expires then
    accounts.set[#accounts.set + 1] = name
    accounts.set[#accounts.set + 1] = text(account.outstanding) .. ':' .. text(account.spent) .. ':' .. text(account.seq)
      .. ':' .. text(account.ends) .. ':' .. text(want) .. ':' .. keeps
  end
  if mine then
    accounts.own, account.want = account, want
    return
  end
  accounts.wanted = accounts.wanted + want
  if account.outstanding > 0 and may_hold_idle(keeps, account.ends - call.ttl, call) then
    accounts.idle[#accounts.idle + 1] = string.sub(name, 2)
  end
end

-- The fields of a hash: accounts, and the others as text in `fields`. `wanted` is what the other sessions want; `last` is when
-- the last account ends that `op` does not write anew; `buried` when the last tombstone may go; `idle` who may hold something
-- that another session could use.
local function read_accounts(op, call)
  local accounts = { list = {}, drop = {}, set = {}, idle = {}, outstanding = 0, wanted = 0, last = 0, buried = 0 }
  local fields, flat = {}, redis.call('HGETALL', op.key)
  for at = 1, #flat, 2 do
    local name, value = flat[at], flat[at + 1]
    local outstanding, spent, seq, expires, want, keeps =
      string.match(value, '^(%d+):(-?%d+):(%d+):(%d+):(%d+):?(%d?)$')
    local is_dead = not outstanding
    if is_dead then
      outstanding, spent, seq, expires = string.match(value, '^d:(%d+):(-?%d+):(%d+):(%d+)$')
    end
    if not outstanding then
      fields[name] = value
    else
      local account = { outstanding = tonumber(outstanding), spent = tonumber(spent), seq = tonumber(seq) }
      account.ends = ends_at(tonumber(expires), call)
      if is_dead then
        account.ends = math.min(account.ends, call.now)
        bury(accounts, name, account, account.ends < tonumber(expires), call)
      else
        accounts.list[#accounts.list + 1] = account
        if account.ends <= call.now then
          bury(accounts, name, account, true, call)
        else
          add_live(accounts, name, account, tonumber(expires), tonumber(want), tonumber(keeps) or 0, op, call)
        end
      end
    end
  end
  op.fields, op.accounts, op.exists = fields, accounts, #flat > 0
  return fields, accounts
end

-- Whether the call says nothing new: it came too late, or it came before. Of an account that has ended nothing is answered
-- again.
local function is_old(op)
  local own = op.accounts.own or op.accounts.grave
  if op.seq == 0 or not own or op.seq > own.seq then
    return false
  end
  op.status = (op.seq < own.seq or not op.accounts.own) and 1 or 0
  op.want = own.want or 0
  return true
end

-- Books the report of `op`. Returns what comes back to the level, in tokens: less than nothing, where more was spent than had
-- been granted.
local function book(op)
  if op.seq == 0 then
    return -op.spent
  end
  local own, grave, accounts = op.accounts.own, op.accounts.grave, op.accounts
  if own then
    accounts.outstanding = accounts.outstanding - own.outstanding + op.held
  else
    accounts.outstanding = accounts.outstanding + op.held
  end
  local before = own or grave
  return before and before.outstanding - op.held - (op.spent - before.spent) or 0
end

-- What `op` gets of `available` whole tokens. Who needs some is served first; beyond that it gets one part in `parts` of what
-- is left. Where nobody waits and nothing is held back, it gets all it wants if that is there for all sessions, else its share;
-- and `min` wherever that is there.
local function share(op, available)
  local needed = math.min(op.need, available)
  local grant = needed + math.min(op.want - op.need, math.floor((available - needed) / op.parts))
  local wanted = op.accounts.wanted + op.want
  if op.need == 0 and op.parts == 1 and available < wanted then
    grant = math.min(available, op.want, math.max(1, scale(available, op.want, wanted)))
  end
  if grant < op.min and op.min <= available then
    grant = op.min
  end
  op.is_short = grant < op.need
  return grant
end

-- Writes the level's fields (a flat list) and, where there is one, the account of `op` after `grant`. What is dropped goes
-- first, since it may come back in the same breath.
local function write_accounts(op, call, set, grant)
  local accounts = op.accounts
  for at = 1, #accounts.set do
    set[#set + 1] = accounts.set[at]
  end
  if op.seq > 0 then
    local ends = call.now + call.ttl
    accounts.last = math.max(accounts.last, ends)
    accounts.outstanding = accounts.outstanding + grant
    set[#set + 1] = 's' .. call.session
    set[#set + 1] = text(op.held + grant) .. ':' .. text(op.spent) .. ':' .. text(op.seq)
      .. ':' .. text(ends) .. ':' .. text(op.want) .. ':' .. text(op.keeps)
  end
  if #accounts.drop > 0 then
    redis.call('HDEL', op.key, unpack(accounts.drop))
  end
  redis.call('HSET', op.key, unpack(set))
end

-- Until when an account or its tombstone says something.
local function remembered_until(accounts, call)
  local live = accounts.last > call.now and accounts.last + call.ttl or 0
  return math.max(live, accounts.buried)
end
