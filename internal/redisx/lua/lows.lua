-- The lows of a token bucket whose requests are charged ahead, so that what is given back of those is exact.
--
-- A charge counts until the bucket would once have been empty without it. So what is given back of it later lowers the
-- level by as much, but by no more than the least level since then. Lows are a list since, least, since, least, ...:
-- from an instant on, each charge has found at least so much in the bucket. Both rise. What was charged at an instant
-- has the last low that does not begin later. They are a record directly behind the one of the bucket, whose kind is
-- one more: how many there are, and the list. No function here but setLows changes the list that it is given.
local maxLows = 16
local noLows = {}

local bucketSize = 6

-- hasLows reports whether the bucket at o has lows.
local function hasLows(w, o)
  return w[o + bucketSize] == w[o] - w[o] % 16 + 1
end

-- lowsOf returns the lows of the bucket at o. Those that make no sense say nothing.
local function lowsOf(w, o)
  if not hasLows(w, o) then
    return noLows
  end
  local lows, first = {}, o + bucketSize + 1
  for i = 1, 2 * w[first] do
    lows[i] = w[first + i]
    if lows[i] <= (lows[i - 2] or 0) or lows[i] > maxExact then
      return noLows
    end
  end
  return lows
end

-- setLows replaces the lows of the bucket at o.
local function setLows(w, o, lows)
  local at = o + bucketSize
  local before, after = hasLows(w, o) and 2 + 2 * w[at + 1] or 0, #lows > 0 and 2 + #lows or 0
  if before ~= after then
    resize(w, at, after - before)
  end
  if after > 0 then
    w[at], w[at + 1] = w[o] - w[o] % 16 + 1, #lows / 2
    for i = 1, #lows do
      w[at + 1 + i] = lows[i]
    end
  end
end

-- boundLows returns lows that are no higher than level, without those that say no more than the one before.
local function boundLows(lows, level)
  local bounds, kept, last = {}, {}, 0
  for i = #lows, 2, -2 do
    level = min(level, lows[i])
    bounds[i] = level
  end
  for i = 2, #lows, 2 do
    if bounds[i] > last then
      last = bounds[i]
      kept[#kept + 1] = lows[i - 1]
      kept[#kept + 1] = last
    end
  end
  return kept
end

-- dropLow removes from lows the one that costs least: then the one before holds for what was charged since.
local function dropLow(lows)
  local at, least = 2, lows[2]
  for i = 4, #lows, 2 do
    if lows[i] - lows[i - 2] < least then
      at, least = i, lows[i] - lows[i - 2]
    end
  end
  table.remove(lows, at)
  table.remove(lows, at - 1)
end

-- addLow returns lows with the level after a charge ahead. Charges of one instant are as one. So are those from when the clock
-- has stepped back within a tick: nothing has drained between them.
local function addLow(lows, now, level)
  local n = #lows
  while n > 0 and lows[n - 1] >= now do
    n = n - 2
  end
  local own = {unpack(lows, 1, n)}
  own[n + 1], own[n + 2] = now, level
  if n == 2 * maxLows then
    dropLow(own)
  end
  return own
end

-- lowOf returns the place of the level that holds for what was charged at an instant, or 0.
local function lowOf(lows, at)
  local n = #lows
  while n > 0 and lows[n - 1] > at do
    n = n - 2
  end
  return n
end

-- returnedLows returns lows after something has been given back that was charged at an instant.
local function returnedLows(lows, at, back)
  local lower = {unpack(lows)}
  for i = max(lowOf(lows, at), 2), #lows, 2 do
    lower[i] = lows[i] - back
  end
  return boundLows(lower, maxExact)
end
