-- The lows of a token bucket whose requests are charged ahead, so that what is given back of those is exact.
--
-- A charge counts until the bucket would once have been empty without it. So what is given back of it later lowers the
-- level by as much, but by no more than the least level since then. Lows are a list since, least, since, least, ...:
-- from an instant on, each charge has found at least so much in the bucket. Both rise. What was charged at an instant
-- has the last low that does not begin later. They are a record directly behind the one of the bucket, whose kind is
-- one more: how many there are, and the list. Charges change it in place, and refunds change a copy.
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

-- keepLows keeps the first n lows of the bucket at o, which has lows.
local function keepLows(w, o, n)
  local at = o + bucketSize
  local count = w[at + 1]
  if n == 0 then
    resize(w, at, -2 - 2 * count)
  elseif n < count then
    resize(w, at + 2 + 2 * n, 2 * (n - count))
    w[at + 1] = n
  end
end

-- capLows is boundLows for the bucket at o, which has lows.
local function capLows(w, o, level)
  local first = o + bucketSize + 1
  local count = w[first]
  local n = count
  while n > 0 and w[first + 2 * n] > level do
    n = n - 1
  end
  if n < count and level > (n > 0 and w[first + 2 * n] or 0) then
    n = n + 1
    w[first + 2 * n] = level
  end
  keepLows(w, o, n)
end

-- cheapestLow returns the place of the low that costs least to remove among those of the bucket at o, which has as many
-- as it may have, and a further one of a level: then the one before holds for what was charged since.
local function cheapestLow(w, o, level)
  local first, cheapest, least, before = o + bucketSize + 1, 1, maxExact, 0
  for i = 1, maxLows + 1 do
    local low = i > maxLows and level or w[first + 2 * i]
    if low - before < least then
      cheapest, least = i, low - before
    end
    before = low
  end
  return cheapest
end

-- addLow adds the level of the bucket at o, which was charged ahead at now. Charges of one instant are as one. So are those
-- from when the clock has stepped back within a tick: nothing has drained between them.
local function addLow(w, o, now)
  local at, level = o + bucketSize, w[o + 1]
  if not hasLows(w, o) then
    return setLows(w, o, {now, level})
  end
  local n = w[at + 1]
  while n > 0 and w[at + 2 * n] >= now do
    n = n - 1
  end
  if n == maxLows then
    local cheapest = cheapestLow(w, o, level)
    if cheapest > maxLows then
      return
    end
    for i = at + 2 * cheapest, at + 2 * maxLows - 1 do
      w[i] = w[i + 2]
    end
    n = n - 1
  elseif n == w[at + 1] then
    resize(w, at + 2 + 2 * n, 2)
    w[at + 1] = n + 1
  end
  w[at + 2 + 2 * n], w[at + 3 + 2 * n] = now, level
  keepLows(w, o, n + 1)
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
