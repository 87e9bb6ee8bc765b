-- Whole numbers in doubles: nothing here is rounded, as long as what goes in and comes out is at most 2^53.
-- KEYS: none. ARGV: none.
-- Returns: nothing; defines the functions below. Complexity: O(1).

-- Text of a whole number. `tostring` and `..` would write 1.79e+15.
local function text(number)
  return string.format('%.0f', number)
end

local function clamp(number, least, most)
  return math.max(least, math.min(number, most))
end

local function ceil_div(a, b)
  return -math.floor(-a / b)
end

-- floor(x * by / of), where the product may have 90 bits: long multiplication, by 15 bits of `by` at a time, highest first.
-- Takes 0 <= by, and 0 < of < 2^37. What exceeds 2^53 in the end is only known to do so.
local function scale(x, by, of)
  local whole, factor = math.floor(x / of), by
  local rest = x - whole * of
  local quotient, left, unit = 0, 0, 1
  while unit * 32768 <= by do
    unit = unit * 32768
  end
  while unit >= 1 do
    local digit = math.floor(by / unit)
    by = by - digit * unit
    local part = left * 32768 + rest * digit
    local times = math.floor(part / of)
    quotient = quotient * 32768 + times
    left = part - times * of
    unit = unit / 32768
  end
  return whole * factor + quotient
end
