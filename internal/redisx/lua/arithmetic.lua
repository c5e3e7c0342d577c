-- See core/arithmetic.go.

-- floorDiv returns a/b rounded down. a must not be negative, b must be positive.
local function floorDiv(a, b)
  return (a - a % b) / b
end

-- ceilDiv returns a/b rounded up. a must not be negative, b must be positive.
local function ceilDiv(a, b)
  local rest = a % b
  if rest > 0 then
    return (a - rest) / b + 1
  end
  return a / b
end

-- floorTo returns the largest multiple of step that is not above t, which must not be negative.
local function floorTo(t, step)
  return t - t % step
end

-- mulDivUp returns a*b/c rounded up, or maxExact if that is less. The product may need more than 53 bits, so it goes
-- through those of a one by one. b and c must be below 2^50.
local function mulDivUp(a, b, c)
  local q, rest = 0, 0
  local whole, part = floorDiv(b, c), b % c
  for bit = 53, 0, -1 do
    q, rest = 2 * q, 2 * rest
    if a >= 2 ^ bit then
      a, q, rest = a - 2 ^ bit, q + whole, rest + part
    end
    q, rest = q + floorDiv(rest, c), rest % c
  end
  if rest > 0 then
    q = q + 1
  end
  return min(q, maxExact)
end

-- exact returns the number that digits stand for, or nil if it is none of ours.
local function exact(digits)
  local n = tonumber(digits)
  if n and n <= maxExact then
    return n
  end
end
