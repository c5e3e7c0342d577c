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

-- untilUsed returns how long after now an opened ring takes to count no more than n.
function sliding.untilUsed(l, now, n)
  local ring, width = l.ring, l.width
  local left, newest, ends = ring[3], ring[4], ring[5]
  if l.used <= n then
    return 0
  elseif n == 0 then
    return newest + l.micros - now
  end
  repeat
    left, ends = left - ring[ends / width % l.n + 6], ends + width
  until left <= n or ends > newest
  return max(0, ends - width + l.micros - now)
end

-- moveTo makes the sub-bucket of now the newest. What later ones count, which the clock has left behind, moves to it. What no longer
-- counts is cleared. It adds the counters up again, so that a sum that makes no sense does not stay.
local function moveTo(l, now)
  local ring, n, width, last = l.ring, l.n, l.width, endOf(l.width, now)
  local newest, oldest, later, sum = ring[4], ring[5], 0, 0
  while newest > last and newest >= oldest do
    local i = newest / width % n + 6
    later, ring[i], newest = later + ring[i], 0, newest - width
  end
  while oldest <= newest and (oldest + l.micros <= now or ring[oldest / width % n + 6] == 0) do
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
function sliding.open(l, text, place, now)
  local ring, n, width, micros = {unpackWords(l.form, text, place)}, l.n, l.width, l.micros
  local used, newest, oldest, isLate = ring[3], ring[4], ring[5], ring[4] > now - now % width + width
  local areEnds = newest <= maxExact and newest % width == 0 and oldest % width == 0 and oldest <= newest and newest - oldest < n * width
  l.ring = ring
  if ring[1] ~= l.kind or ring[2] ~= width or used > maxExact or isLate and not l.state or not areEnds then
    return nil
  elseif isLate then
    moveTo(l, now)
    rewrite(l)
    used, oldest = ring[3], ring[5]
  elseif newest + micros <= now then
    used = 0
  end
  while used > 0 and oldest + micros <= now do
    used = max(0, used - ring[oldest / width % n + 6])
    oldest = oldest + width
  end
  l.used = used
  return used
end

-- charge adds cost, even if it does not fit.
function sliding.charge(l, now, cost)
  local ring, width = l.ring, l.width
  if ring[4] ~= now - now % width + width or ring[5] + l.micros <= now then
    moveTo(l, now)
  end
  local i = ring[4] / width % l.n + 6
  cost = min(cost, maxExact - ring[3])
  ring[3], ring[i] = ring[3] + cost, ring[i] + cost
  l.used = ring[3]
  return ring[4] + l.micros
end

-- join prepares an opened ring for a charge of cost, which all siblings that count something count as well. A ring that counts nothing
-- begins with what its fullest sibling counts (of several, the widest): each count in the sub-bucket that contains its end, but not in a
-- later one than now's.
function sliding.join(l, now, cost)
  local from = l.used == 0 and l.fullest
  if from then
    l.ring = {unpackWords(l.form, l.blank)}
    for ends = from.ring[5], from.ring[4], from.width do
      local n = from.ring[ends / from.width % from.n + 6]
      if n > 0 and ends + l.micros > now then
        sliding.charge(l, min(ends, now), n)
      end
    end
  end
  for _, other in ipairs(l.siblings) do
    if other.used > 0 then
      sliding.charge(other, now, cost)
      store(other)
    end
  end
end

-- refund takes back a charge of cost from the sub-bucket of an earlier instant, of all siblings, as far as it still counts.
function sliding.refund(l, _, at, _, cost)
  local siblings = l.siblings or none
  for k = 0, #siblings do
    local one = siblings[k] or l
    local ring, n, width, ends = one.ring, one.n, one.width, endOf(one.width, at)
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
  l.width, l.sibling, l.lasts = l.unit, l.unit, l.micros + l.unit
  l.n = ceilDiv(l.micros, l.width) + 1

  function l.words(...)
    local ring, size, more = l.ring, l.size, ... and {...} or none -- more words are of the states behind it
    for i = 1, #more do
      ring[size + i] = more[i]
    end
    return unpack(ring, 1, size + #more)
  end
end

algorithms[8] = sliding
