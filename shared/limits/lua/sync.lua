-- The one script of the limits: a batch of operations on keys of one slot, decided in one step. clock.lua to shape.lua come
-- before this file, in one text.
-- KEYS[1] the epoch of the slot. KEYS[2..] one key for each operation, in order.
-- ARGV[1] the server's run id, or ''. ARGV[2] session. ARGV[3] ttl_us. Then for each operation its kind ('p' permits, 't' tokens,
-- 'w' window, 's' shape), its group (0: none), and the arguments that the kind's file names, all whole numbers.
-- Returns: now_us, learning (0 or 1), and for each operation what the kind's file says, all in one list of integers.
-- Complexity: O(operations * sessions).
--
-- Operations of one group stand together, on different keys, and are granted all or none: all where each has its `min`. What they
-- report and give back is written all the same. Groups follow one another, so that a later one sees what an earlier one wrote.

local KINDS = { p = permits, t = tokens, w = window, s = shape }

local function parse()
  local ops, at = {}, 4
  for index = 2, #KEYS do
    local kind = KINDS[ARGV[at]]
    if not kind then
      return nil
    end
    local op = { key = KEYS[index], kind = kind, group = tonumber(ARGV[at + 1]) }
    for place, name in ipairs(kind.args) do
      op[name] = tonumber(ARGV[at + 1 + place])
      if not op[name] then
        return nil
      end
    end
    ops[#ops + 1] = op
    at = at + 2 + #kind.args
  end
  return at == #ARGV + 1 and ops or nil
end

local ops = parse()
if not ops then
  return redis.error_reply('ERR cofferdam: keys and arguments do not fit together')
end

local call = { now = now_us(), session = ARGV[2], ttl = tonumber(ARGV[3]) }
call.start = epoch_start(call.now)
call.learning = call.now - call.start < call.ttl

local answer = { call.now, call.learning and 1 or 0 }
local function out(...)
  for place = 1, select('#', ...) do
    answer[#answer + 1] = select(place, ...)
  end
end

local first = 1
while first <= #ops do
  local last, is_granted = first, true
  while ops[first].group ~= 0 and ops[last + 1] and ops[last + 1].group == ops[first].group do
    last = last + 1
  end
  for index = first, last do
    ops[index].kind.read(ops[index], call)
    is_granted = is_granted and ops[index].met
  end
  for index = first, last do
    ops[index].kind.write(ops[index], call, is_granted, out)
  end
  first = last + 1
end
return answer
