-- How far a change of the fleet's table is let loose: a number of slots that grows with this server's clock, so that no router's
-- counts. clock.lua and revision.lua come before this file, in one text.
-- KEYS[1] a hash: began (the revision that began it), digest (of the table that it leads to), total, base (parts let loose by
-- `since`), since (in us), rate (slots a minute), orders (how often it was stopped or let go on: stopped where that is odd).
-- ARGV[1] the server's run id, which is not needed here. ARGV[2] what is done; ARGV[3] the digest that it is about; ARGV[4] the
-- revision that began it, without leading zeros.
--   'begin': ARGV[5] how many slots there are, ARGV[6] the rate, ARGV[7] how many are known to be loose, ARGV[8] how many orders are
--     known. One that began later than the stored one takes its place; of the stored one itself the rate is set, and what is known
--     and was forgotten here counts.
--   'look': nothing.
--   'stop', 'go': the stored one is meant where it leads to the same, and began then or later.
-- Returns: the digest ('' for none), the revision that began it, total, how many are loose, rate, orders.
-- Complexity: O(1).

local LASTS_US = 31 * 86400 * 1000000

-- A slot is so many parts: at one slot a minute a part comes loose each microsecond, so a change of the rate loses none.
local PARTS = 60000000

local what, digest, began, now = ARGV[2], ARGV[3], ARGV[4], now_us()
local stored = redis.call('HGETALL', KEYS[1])
local state = {}
for at = 1, #stored, 2 do
  state[stored[at]] = stored[at + 1]
end

local function number(name)
  return tonumber(state[name] or 0) or 0
end

local function is_stopped()
  return number('orders') % 2 == 1
end

local function loose_parts()
  local grown = 0
  if not is_stopped() then
    grown = math.max(0, now - number('since')) * number('rate')
  end
  return math.min(number('total') * PARTS, number('base') + grown)
end

local function write(changed)
  for name, value in pairs(changed) do
    local text = type(value) == 'number' and string.format('%.0f', value) or value
    state[name] = text
    redis.call('HSET', KEYS[1], name, text)
  end
end

local leads_there = state.digest == digest
if what == 'begin' then
  local total, rate, known, orders = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]) * PARTS, tonumber(ARGV[8])
  if leads_there and state.began == began then
    local is_loose = loose_parts()
    local is_told = known > is_loose or orders > number('orders') or total > number('total')
    if is_told or rate ~= number('rate') then
      write({
        base = math.max(is_loose, known),
        since = now,
        rate = rate,
        orders = math.max(orders, number('orders')),
        total = math.max(total, number('total')),
      })
    end
    expire_in(KEYS[1], LASTS_US)
  elseif not state.began or is_above(began, state.began) then
    write({ began = began, digest = digest, total = total, base = known, since = now, rate = rate, orders = orders })
    expire_in(KEYS[1], LASTS_US)
  end
elseif (what == 'stop' or what == 'go') and leads_there and not is_above(began, state.began) then
  if is_stopped() == (what == 'go') then
    write({ base = loose_parts(), since = now, orders = number('orders') + 1 })
    expire_in(KEYS[1], LASTS_US)
  end
end
return {
  state.digest or '',
  state.began or '',
  number('total'),
  math.floor(loose_parts() / PARTS),
  number('rate'),
  number('orders'),
}
