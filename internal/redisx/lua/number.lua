-- Whole numbers.
--
-- A Lua number holds whole numbers up to maxExact exactly, and no number here exceeds that. Numbers become text by '%d'
-- only, because tostring and .. keep no more than 14 digits. a % b is exact for all a up to maxExact.
local maxExact = 9007199254740992

local floor, max, min = math.floor, math.max, math.min

-- floorDiv returns a/b rounded down. a must not be negative, b must be positive.
local function floorDiv(a, b)
  return (a - a % b) / b
end

-- ceilDiv returns a/b rounded up. a must not be negative, b must be positive.
local function ceilDiv(a, b)
  local rest = a % b
  return rest > 0 and (a - rest) / b + 1 or a / b
end

-- mulDivUp returns a*b/c rounded up, or maxExact if that is less. The product may need more than 53 bits, so a is
-- multiplied bit by bit. b and c must be below 2^50.
local function mulDivUp(a, b, c)
  local q, rest = 0, 0
  local whole, remainder = floorDiv(b, c), b % c
  for bit = 53, 0, -1 do
    q, rest = 2 * q, 2 * rest
    if a >= 2 ^ bit then
      a, q, rest = a - 2 ^ bit, q + whole, rest + remainder
    end
    q, rest = q + floorDiv(rest, c), rest % c
  end
  return min(rest > 0 and q + 1 or q, maxExact)
end
