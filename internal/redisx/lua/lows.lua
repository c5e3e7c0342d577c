-- The lows of a token bucket whose requests are charged ahead, so that the return of those that were not used is exact.
--
-- A charge counts until the bucket would once have been empty without it. So a return of it lowers the level by
-- as much, but by no more than the least level since then. Lows are a list since, least, since, least, ...:
-- from an instant on, each charge has found at least so much in the bucket. Both rise. What was charged at an instant
-- has the last low that does not begin later. They are a record directly behind the one of the bucket: how many there
-- are, and the list.
local lowsKind, maxLows = 1, 16

local bucketSize = 6

-- hasLows reports whether the bucket at o has lows.
local function hasLows(w, o)
  return w[o + bucketSize] == lowsKind
end

-- removeLows removes lows first to last of the bucket at o, which has them.
local function removeLows(w, o, first, last)
  local at, n = o + bucketSize, first - last - 1
  local left = w[at + 1] + n
  if left == 0 then
    resize(w, at, -2 + 2 * n)
  elseif n < 0 then
    resize(w, at + 2 * first, 2 * n)
    w[at + 1] = left
  end
end

-- forgetLows removes the lows of the bucket at o, if it has any.
local function forgetLows(w, o)
  if hasLows(w, o) then
    removeLows(w, o, 1, w[o + bucketSize + 1])
  end
end

-- capLows lowers the lows of the bucket at o, which has lows, to level, and removes those that then say no more than the
-- one before.
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
  removeLows(w, o, n + 1, count)
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
    resize(w, at, 4)
    w[at], w[at + 1], w[at + 2], w[at + 3] = lowsKind, 1, now, level
    return
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
  removeLows(w, o, n + 2, w[at + 1])
end

-- lowFor returns the index of the last low that does not begin later than an instant, or 0. It removes lows that make no
-- sense.
local function lowFor(w, o, at)
  if not hasLows(w, o) then
    return 0
  end
  local first, n, since, low = o + bucketSize + 1, 0, 0, 0
  for i = first + 1, first + 2 * w[first], 2 do
    if w[i] <= since or w[i] > maxExact or w[i + 1] <= low or w[i + 1] > maxExact then
      forgetLows(w, o)
      return 0
    end
    since, low = w[i], w[i + 1]
    if since <= at then
      n = n + 1
    end
  end
  return n
end

-- lowerLows lowers low n of the bucket at o, or the first low if n is 0, and all later ones: a refund of back, to whose
-- charge low n applies, lowers the level by as much. It removes the lows that then say nothing.
local function lowerLows(w, o, n, back)
  if not hasLows(w, o) then
    return
  end
  local first, from = o + bucketSize + 1, max(n, 1)
  local count, none = w[first], 0
  for i = from, count do
    w[first + 2 * i] = w[first + 2 * i] - back
    if w[first + 2 * i] <= 0 then
      none = i
    end
  end
  if none > 0 then
    return removeLows(w, o, 1, none)
  end
  local low, least = from, w[first + 2 * from]
  while low > 1 and w[first + 2 * low - 2] >= least do
    low = low - 1
  end
  w[first + 2 * low] = least
  removeLows(w, o, low + 1, from)
end
