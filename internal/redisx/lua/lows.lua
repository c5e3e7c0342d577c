-- The lows of a token bucket whose requests are charged ahead, so that what is given back of those is exact.
-- Uses max, maxExact, min (number), pack, unpackWords, word (word).
--
-- A charge counts until the bucket would once have been empty without it. So what is given back of it later lowers the level by
-- as much, but by no more than the least level since then. Lows are a list since, least, since, least, ...: from an instant on,
-- each charge has found at least so much in the bucket. Both rise. What was charged at an instant has the last low that does
-- not begin later.
-- No function here changes the lows that it is given.
local maxLows = 16
local noLows = {}

-- readLows returns the lows in a state from a byte on, or nil if there cannot be so many bytes. Those that make no sense say
-- nothing.
local function readLows(s, first)
  local n = (#s - first + 1) / word
  if n == 0 then
    return noLows
  elseif n % 2 ~= 0 or n > 2 * maxLows then
    return nil
  end
  local lows = {unpackWords('<' .. string.rep('I8', n), s, first)}
  lows[n + 1] = nil -- struct adds where it has stopped
  for i = 1, n do
    if lows[i] > maxExact or lows[i] <= (lows[i - 2] or 0) then
      return noLows
    end
  end
  return lows
end

-- lowsIn returns the lows of a bucket, if they are in the ticks of l.
local function lowsIn(b, l)
  return b.tick == l.unit and b.lows or noLows
end

-- writeLows returns lows as bytes.
local function writeLows(lows)
  return #lows == 0 and '' or pack('<' .. string.rep('I8', #lows), unpack(lows))
end

-- boundLows returns lows that are no higher than level, without those that say no more than the one before.
local function boundLows(lows, level)
  if #lows == 0 then
    return lows
  end
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

-- dropLow removes from own lows the one that costs least: then the one before holds for what was charged since.
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
