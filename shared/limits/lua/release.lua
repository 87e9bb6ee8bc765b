-- How far a change of the fleet's table is let loose: a number of slots that grows with this server's clock, so that no router's
-- counts. clock.lua comes before this file, in one text.
-- KEYS[1] a hash: revision, digest, total, base (slots let loose by `since`), since (in us; 0 where it is stopped), rate (slots a
-- minute).
-- ARGV[1] the server's run id, which is not needed here. ARGV[2] what is done; ARGV[3] the digest that it is about.
--   'begin': ARGV[4] the revision, ARGV[5] how many slots there are, ARGV[6] the rate, ARGV[7] how many are known to be loose. A lower
--     revision than the stored one begins nothing; the same digest begins nothing anew, and sets the rate.
--   'look', 'stop', 'go': of another digest than the stored one nothing is done.
-- Returns: the digest ('' for none), revision, total, how many are loose, rate, 1 where it goes on and 0 where it is stopped.
-- Complexity: O(1).

local LASTS_US = 31 * 86400 * 1000000

local what, digest, now = ARGV[2], ARGV[3], now_us()
local stored = redis.call('HGETALL', KEYS[1])
local state = {}
for at = 1, #stored, 2 do
  state[stored[at]] = stored[at + 1]
end

local function number(name)
  return tonumber(state[name] or 0) or 0
end

local function loose()
  local since, grown = number('since'), 0
  if since > 0 then
    grown = math.floor(math.max(0, now - since) * number('rate') / 60000000)
  end
  return math.min(number('total'), number('base') + grown)
end

local function write(changed)
  for name, value in pairs(changed) do
    local text = type(value) == 'number' and string.format('%.0f', value) or value
    state[name] = text
    redis.call('HSET', KEYS[1], name, text)
  end
  expire_in(KEYS[1], LASTS_US)
end

local is_same = state.digest == digest
if what == 'begin' then
  local revision, total, rate, known = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
  if is_same then
    local is_loose = math.max(loose(), known)
    if rate ~= number('rate') or is_loose > loose() then
      write({ base = is_loose, since = number('since') > 0 and now or 0, rate = rate })
    end
    if revision > number('revision') then
      write({ revision = revision })
    end
  elseif not state.digest or revision > number('revision') then
    write({ revision = revision, digest = digest, total = total, base = known, since = now, rate = rate })
  end
elseif what == 'stop' and is_same and number('since') > 0 then
  write({ base = loose(), since = 0 })
elseif what == 'go' and is_same and number('since') == 0 then
  write({ since = now })
end
local goes_on = number('since') > 0 and 1 or 0
return { state.digest or '', number('revision'), number('total'), loose(), number('rate'), goes_on }
