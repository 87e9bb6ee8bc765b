-- Accounts: what each session was granted and still holds, kept beside the level that it was granted from.
-- KEYS: a hash, with a field `s<session>` for each account. ARGV: as sync.lua says.
-- Returns: nothing; defines the functions below. Complexity: O(fields) for reading, O(1) otherwise.
--
-- A field is `outstanding:spent:seq:expires_us:want`. An account whose time has passed is dropped, and what it held counts as
-- spent. An account that is not there is registered: the session is believed what it holds, and gets nothing for it.

-- A time further ahead than any session of this or twice this TTL could have written is from before the clock went back.
local function ends_at(expires, call)
  return math.min(expires, call.now + 2 * call.ttl)
end

-- The fields of a hash: accounts, and the others as text in `fields`. `wanted` is what the other sessions want; `last` is when
-- the last account ends that `op` does not write anew.
local function read_accounts(op, call)
  local accounts = { list = {}, drop = {}, set = {}, outstanding = 0, wanted = 0, last = 0 }
  local fields, flat = {}, redis.call('HGETALL', op.key)
  for at = 1, #flat, 2 do
    local name, value = flat[at], flat[at + 1]
    local outstanding, spent, seq, expires, want = string.match(value, '^(%d+):(-?%d+):(%d+):(%d+):(%d+)$')
    if not outstanding then
      fields[name] = value
    else
      local account = { outstanding = tonumber(outstanding), ends = ends_at(tonumber(expires), call) }
      accounts.list[#accounts.list + 1] = account
      if account.ends <= call.now then
        accounts.drop[#accounts.drop + 1] = name
      else
        accounts.outstanding = accounts.outstanding + account.outstanding
        local mine = name == 's' .. call.session
        if not mine or op.seq == 0 then
          accounts.last = math.max(accounts.last, account.ends)
        end
        if account.ends < tonumber(expires) then
          accounts.set[#accounts.set + 1] = name
          accounts.set[#accounts.set + 1] =
            outstanding .. ':' .. spent .. ':' .. seq .. ':' .. text(account.ends) .. ':' .. want
        end
        if mine then
          accounts.own = account
          account.spent, account.seq, account.want = tonumber(spent), tonumber(seq), tonumber(want)
        else
          accounts.wanted = accounts.wanted + tonumber(want)
        end
      end
    end
  end
  op.fields, op.accounts, op.exists = fields, accounts, #flat > 0
  return fields, accounts
end

-- Whether the call says nothing new: it came too late, or it came before.
local function is_old(op)
  local own = op.accounts.own
  if op.seq == 0 or not own or op.seq > own.seq then
    return false
  end
  op.status = op.seq < own.seq and 1 or 0
  op.want = own.want
  return true
end

-- Books the report of `op`. Returns what comes back to the level, in tokens: less than nothing, where more was spent than had
-- been granted.
local function book(op)
  if op.seq == 0 then
    return -op.spent
  end
  local own, accounts = op.accounts.own, op.accounts
  if not own then
    accounts.outstanding = accounts.outstanding + op.held
    return 0
  end
  accounts.outstanding = accounts.outstanding - own.outstanding + op.held
  return own.outstanding - op.held - (op.spent - own.spent)
end

-- What `op` gets of `available` whole tokens: all it wants where there is enough for all sessions, else its share, and `min`
-- wherever that is there.
local function share(op, available)
  local grant, wanted = op.want, op.accounts.wanted + op.want
  if available < wanted then
    grant = math.min(available, op.want, math.max(1, scale(available, op.want, wanted)))
  end
  if grant < op.min and op.min <= available then
    grant = op.min
  end
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
      .. ':' .. text(ends) .. ':' .. text(op.want)
  end
  if #accounts.drop > 0 then
    redis.call('HDEL', op.key, unpack(accounts.drop))
  end
  redis.call('HSET', op.key, unpack(set))
end
