-- Recall: asks the sessions that keep something idle of a key to give it back, where another session is short of it.
-- KEYS: a hash, with a field `m`: `until_us:asked_us`, the mark of a contended key. ARGV: as sync.lua says.
-- Returns: nothing; defines the functions below. Complexity: O(idle sessions).
--
-- A message is a hint on the channel `{fleet:recall}<session>`, with the key's name. A lost one costs the asker its budget;
-- what may be granted is decided by what is stored, and never by a message.

-- A holder is asked again after so long.
local RECALL_EVERY_US = 5000

-- What a session keeps of a key: nothing idle; something; or something, but this call has just given all of it back.
local KEEPS_SPARE, HAS_RETURNED = 1, 2

-- Whether a session may hold something idle that it was not asked for yet. `called` is when its last call was executed.
local function may_hold_idle(keeps, called, call)
  return keeps == KEEPS_SPARE or (keeps == HAS_RETURNED and call.now - called >= RECALL_EVERY_US)
end

-- Decides what the answer says of the key: 0 plain, 1 contended, 2 recalled, 3 idle elsewhere but nobody may be told. A key is
-- contended for a third of a TTL after the last recall; whoever was asked is remembered for longer, and the key with it.
local function recall(op, call, mark, idle)
  local lasts = math.floor(call.ttl / 3)
  local ends, asked = string.match(mark or '', '^(%d+):(%d+)$')
  ends, asked = math.min(tonumber(ends) or 0, call.now + lasts), tonumber(asked) or 0
  op.contended = call.now < ends and 1 or 0
  if not op.is_short or #idle == 0 then
    return
  end
  op.contended = 2
  if call.now - asked >= RECALL_EVERY_US or asked > call.now then
    asked = call.now
    local prefix = string.match(KEYS[1], '^{[^:]*:') .. 'recall}'
    for _, session in ipairs(idle) do
      local sent = redis.pcall('PUBLISH', prefix .. session, op.key)
      if type(sent) == 'table' and sent.err then
        op.contended, asked = 3, 0
      end
    end
  end
  redis.call('HSET', op.key, 'm', text(call.now + lasts) .. ':' .. text(asked))
end
