-- Shape: a leaky bucket as a schedule, one place every p/n microseconds.
-- KEYS: a string `us:part:n`: the next free place, in whole us and 1/n us.
-- ARGV: n, p, depth, max_wait_us; (depth + 1) * p is at most 2^53.
-- Returns: status (0, or 2 refused), delay_us (of a refusal: until there is room). Complexity: O(1).
--
-- Refused is who would wait for longer than max_wait_us, or as one of more than `depth`. A refusal takes no place.

local shape = { args = { 'n', 'p', 'depth', 'max_wait_us' } }

-- How far the next place lies ahead, in whole microseconds and 1/n. A part of another rate is rounded up. Places lie at most
-- depth + 1 apart from now: what is further ahead is from before the clock went back, or from a deeper queue.
local function read_ahead(op, call)
  local next_us, part, n = string.match(redis.call('GET', op.key) or '', '^(%d+):(%d+):(%d+)$')
  if not next_us or tonumber(next_us) < call.now then
    return 0, 0
  end
  local ahead, rest = tonumber(next_us) - call.now, tonumber(part)
  if tonumber(n) ~= op.n then
    ahead, rest = ahead + math.min(1, rest), 0
  end
  local most = (op.depth + 1) * op.p
  local most_us, most_rest = math.floor(most / op.n), most % op.n
  if ahead > most_us or ahead == most_us and rest > most_rest then
    op.is_reset = true
    return most_us, most_rest
  end
  return ahead, rest
end

function shape.read(op, call)
  op.ahead, op.rest = read_ahead(op, call)
  op.delay = op.ahead + math.min(1, op.rest)
  -- Who waits for longer than depth * p/n has more than `depth` - 1 before it.
  local queue = op.depth * op.p
  local excess = op.ahead - math.floor(queue / op.n)
  if op.rest > queue % op.n then
    excess = excess + 1
  end
  op.room_in = math.max(0, excess, op.delay - op.max_wait_us)
  op.met = op.room_in == 0
end

function shape.write(op, call, is_granted, out)
  local takes = op.met and is_granted
  if takes then
    local rest = op.rest + op.p % op.n
    local us = op.ahead + math.floor(op.p / op.n) + math.floor(rest / op.n)
    shape.store(op, call, us, rest % op.n)
  elseif op.is_reset then
    -- A refusal changes nothing but this: without it the wait would not be enough.
    shape.store(op, call, op.ahead, op.rest)
  end
  out(op.met and 0 or 2, op.met and op.delay or op.room_in)
end

function shape.store(op, call, ahead, rest)
  redis.call('SET', op.key, text(call.now + ahead) .. ':' .. text(rest) .. ':' .. text(op.n))
  expire_in(op.key, ahead + 1)
end

