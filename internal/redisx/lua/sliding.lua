-- The state of a SlidingWindow: a ring with a counter for each sub-bucket of the period. Mirrors internal/algorithm.
--
-- A sub-bucket counts in full until one period after its end. The words, which a table called ring has while a request is decided:
-- kind, width, the sum of the counters, the ends of the newest and of the oldest sub-bucket that counts something, and the counters.
-- The counter of a sub-bucket is at its end / width.
--
-- Rings of one period are siblings. Each counts every charge of the pair, and the fullest one says what is used.
local sliding = {hasSiblings = true, isRead = true}
local maxSubBuckets = 60

-- endOf returns the end of the sub-bucket of an instant.
local function endOf(width, at)
  return at - at % width + width
end

-- join prepares an opened ring for a charge of cost, which all siblings that count something count as well. A ring that counts nothing
-- begins with what its fullest sibling counts (of several, the widest): each count in the sub-bucket that contains its end, but not in a
-- later one than now's.
function sliding.join(l, now, cost)
  local from = l.used() == 0 and l.fullest
  if from then
    local ring, n, width = from.ring()
    l.open(l.blank, 1, now)
    for ends = ring[5], ring[4], width do
      local counted = ring[ends / width % n + 6]
      if counted > 0 and ends + l.micros > now then
        l.charge(min(ends, now), counted)
      end
    end
  end
  for _, other in ipairs(l.siblings) do
    if other.used() > 0 then
      other.charge(now, cost)
      store(other)
    end
  end
end

-- refund takes back a charge of cost from the sub-bucket of an earlier instant, of all siblings, as far as it still counts.
function sliding.refund(l, _, at, _, cost)
  local siblings = l.siblings or none
  for k = 0, #siblings do
    local one = siblings[k] or l
    local ring, n, width = one.ring()
    local ends = endOf(width, at)
    local i = ends / width % n + 6
    local back = ends <= ring[4] and ends >= ring[5] and min(cost, ring[i]) or 0
    if back > 0 then
      ring[3], ring[i] = max(0, ring[3] - back), ring[i] - back
      while ring[4] > ring[5] and ring[ring[4] / width % n + 6] == 0 do
        ring[4] = ring[4] - width
      end
      while ring[5] < ring[4] and ring[ring[5] / width % n + 6] == 0 do
        ring[5] = ring[5] + width
      end
      store(one)
    end
  end
end

function sliding.ends(text)
  local kind, _, used, newest = unpackWords(fourWords, text)
  return used == 0 and 0 or newest + floorDiv(kind, 24)
end

-- sizeOf returns how many words a state has, or nil if there is none with these words.
function sliding.sizeOf(tag, width)
  local count = ceilDiv(floorDiv(tag, 24), width)
  return width > 0 and width <= maxExact and count <= maxSubBuckets and count + 6
end

function sliding.compile(l)
  local kind, micros, width = l.kind, l.micros, l.unit
  local n = ceilDiv(micros, width) + 1
  local ring, used
  l.sibling, l.lasts = width, micros + ceilDiv(micros, 2) -- a charge counts in siblings, too, whose sub-buckets are no wider

  function l.words(...)
    local size, more = n + 5, ... and {...} or none -- more words are of the states behind it
    for i = 1, #more do
      ring[size + i] = more[i]
    end
    return unpack(ring, 1, size + #more)
  end

  function l.used() return used end
  function l.ring() return ring, n, width end

  function l.untilUsed(now, target)
    local left, newest, ends = ring[3], ring[4], ring[5]
    if used <= target then
      return 0
    elseif target == 0 then
      return newest + micros - now
    end
    repeat
      left, ends = left - ring[ends / width % n + 6], ends + width
    until left <= target or ends > newest
    return max(0, ends - width + micros - now)
  end

  -- moveTo makes the sub-bucket of now the newest. What later ones count, which the clock has left behind, moves to it. What no longer
  -- counts is cleared. It adds the counters up again, so that a sum that makes no sense does not stay.
  local function moveTo(now)
    local last, newest, oldest, later, sum = endOf(width, now), ring[4], ring[5], 0, 0
    while newest > last and newest >= oldest do
      local i = newest / width % n + 6
      later, ring[i], newest = later + ring[i], 0, newest - width
    end
    while oldest <= newest and (oldest + micros <= now or ring[oldest / width % n + 6] == 0) do
      ring[oldest / width % n + 6], oldest = 0, oldest + width
    end
    if oldest > newest then
      oldest = last
    end
    local i = last / width % n + 6
    ring[i] = min(ring[i] + later, maxExact)
    for ends = oldest, last, width do
      sum = sum + ring[ends / width % n + 6]
    end
    ring[3], ring[4], ring[5] = min(sum, maxExact), last, oldest
  end

  -- open brings the ring to now, and returns what is used. What it counts in later sub-buckets, of before the clock went back, counts as
  -- charged now.
  function l.open(text, place, now)
    ring = {unpackWords(l.form, text, place)}
    local sum, newest, oldest = ring[3], ring[4], ring[5]
    local isLate = newest > now - now % width + width
    local areEnds = newest <= maxExact and newest % width == 0 and oldest % width == 0 and oldest <= newest and newest - oldest < n * width
    if ring[1] ~= kind or ring[2] ~= width or sum > maxExact or isLate and not l.state or not areEnds then
      return nil
    elseif isLate then
      moveTo(now)
      rewrite(l)
      sum, oldest = ring[3], ring[5]
    elseif newest + micros <= now then
      sum = 0
    end
    while sum > 0 and oldest + micros <= now do
      sum = max(0, sum - ring[oldest / width % n + 6])
      oldest = oldest + width
    end
    used = sum
    return sum
  end

  -- charge adds cost, even if it does not fit.
  function l.charge(now, cost)
    if ring[4] ~= now - now % width + width or ring[5] + micros <= now then
      moveTo(now)
    end
    local sum, newest = ring[3], ring[4]
    local i = newest / width % n + 6
    cost = min(cost, maxExact - sum)
    used = sum + cost
    ring[3], ring[i] = used, ring[i] + cost
    return newest + micros
  end
end

algorithms[8] = sliding
