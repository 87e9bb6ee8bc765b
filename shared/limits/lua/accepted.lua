-- Which fleet file was accepted last: its revision, its digest, and a text that its readers understand. clock.lua and
-- revision.lua come before this file, in one text.
-- KEYS[1] a hash: revision, digest, text.
-- ARGV[1] the server's run id, which is not needed here. ARGV[2] a revision, without leading zeros; ARGV[3] its digest; ARGV[4] its
-- text ('' to look alone); ARGV[5] '1' where the text is to take the place of another one of the same revision and digest.
-- A higher revision than the stored one always takes its place.
-- Returns: revision, digest and text as they are stored now ('', '' and '' for none). Complexity: O(1).

local revision, digest, text, amends = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local stored = redis.call('HGETALL', KEYS[1])
local state = {}
for at = 1, #stored, 2 do
  state[stored[at]] = stored[at + 1]
end

local is_same = revision == state.revision and digest == state.digest
local is_newer = not state.revision or is_above(revision, state.revision)
if text ~= '' and (is_newer or (is_same and amends)) then
  for name, value in pairs({ revision = revision, digest = digest, text = text }) do
    redis.call('HSET', KEYS[1], name, value)
    state[name] = value
  end
end
return { state.revision or '', state.digest or '', state.text or '' }
