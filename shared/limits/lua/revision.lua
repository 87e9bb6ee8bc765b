-- Revisions of fleet files, which have 64 bits where a number of Lua has 53: they stay text.
-- KEYS: none. ARGV: none.
-- Returns: nothing; defines is_above(one, other) of two revisions without leading zeros. Complexity: O(1).

local function is_above(one, other)
  if #one ~= #other then
    return #one > #other
  end
  return one > other
end
