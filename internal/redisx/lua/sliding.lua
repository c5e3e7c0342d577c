-- The state of a SlidingWindow: a ring with a counter for each sub-bucket of the period. Mirrors internal/algorithm.
--
-- A sub-bucket counts in full until one period after its end. The words, which a table called ring has while a request is decided:
-- kind, width, the end of the newest sub-bucket that was charged, and the counters. The counter of a sub-bucket is at its end / width.
--
-- Rings of one period are siblings. Each counts every charge of the pair, and the fullest one says what is used.
local sliding = {}

-- ringSize returns how many counters a ring has.
local function ringSize(micros, width)
  return ceilDiv(micros, width) + 1
end

-- endOf returns the end of the sub-bucket of an instant.
local function endOf(width, at)
  return at - at % width + width
end

-- count returns what a ring counts at now, and clears the counters that no longer count. ring[3] is the newest end.
local function count(ring, n, width, micros, now)
  local newest, used = ring[3], 0
  local last, from = newest + micros <= now and newest or now - micros, newest - (n - 1) * width
  while from <= last do -- from ended a period ago
    ring[from / width % n + 4] = 0
    from = from + width
  end
  for i = 4, n + 3 do
    used = used + ring[i]
  end
  return used
end

-- untilRing returns how long after now a ring takes to count no more than target.
local function untilRing(ring, n, width, micros, now, used, target)
  if used <= target then
    return 0
  elseif target == 0 then
    local ends = ring[3]
    while ring[ends / width % n + 4] == 0 do
      ends = ends - width
    end
    return ends + micros - now
  end
  local ends = ring[3] - n * width
  repeat
    ends = ends + width
    used = used - ring[ends / width % n + 4]
  until used <= target
  return ends + micros - now
end

-- read returns the ring of a state, or nil if it makes no sense. It counts charges of later sub-buckets, of before the clock went
-- back, as made now.
local function read(l, s, now)
  local n, width = ringSize(l.micros, s.sibling), s.sibling
  local ring, last, later = {unpackWords(formats[n + 3], s.text)}, endOf(width, now), 0
  for i = 4, n + 3 do
    if ring[i] > maxExact then
      return nil
    end
  end
  if ring[3] % width ~= 0 or ring[3] > maxExact then
    return nil
  elseif ring[3] > last then
    for from = ring[3], max(last + width, ring[3] - (n - 1) * width), -width do
      local i = from / width % n + 4
      later, ring[i] = min(later + ring[i], maxExact), 0
    end
    local i = last / width % n + 4
    ring[3], ring[i] = last, min(ring[i] + later, maxExact)
    s.text, l.pair.dirty = pack(formats[n + 3], unpack(ring)), true
  end
  return ring, n, width
end

-- openAmong opens a ring whose pair was taken apart, and looks at its siblings.
local function openAmong(l, now)
  local rings = {}
  for i = 0, #l.siblings do
    local s = l.siblings[i] or l.state
    local ring, n, width = read(l, s, now)
    local used = ring and count(ring, n, width, l.micros, now)
    if not ring or used > maxExact then
      return repair(l, s, now)
    end
    rings[i] = {ring = ring, n = n, width = width, used = used, state = s}
    l.used = i == 0 and used or max(l.used, used)
  end
  l.rings = rings
end

-- untilUsed returns how long after now all siblings of an opened ring take to count no more than target.
local function untilUsed(l, now, target)
  if not l.state then
    return untilRing(l.ring, l.n, l.width, l.micros, now, l.used, target)
  end
  local longest = 0
  for i = 0, #l.rings do
    local r = l.rings[i]
    longest = max(longest, untilRing(r.ring, r.n, r.width, l.micros, now, r.used, target))
  end
  return longest
end

-- open brings the ring to now, and returns how long after now it admits what it is asked.
function sliding.open(l, text, place, now)
  if l.state then
    local wait = openAmong(l, now)
    if wait then
      return wait
    end
  else
    local ring, n, width = {unpackWords(l.form, text, place)}, l.n, l.width
    if ring[1] ~= l.kind or ring[2] ~= width or ring[3] % width ~= 0 or ring[3] > endOf(width, now) then
      return nil
    end
    l.ring, l.used = ring, count(ring, n, width, l.micros, now)
    if l.used > maxExact then
      return nil
    end
  end
  if l.used <= l.room and l.pair.grants == 0 then
    return 0
  end
  return waitFor(l, now, untilUsed)
end

-- add adds cost to a ring in the sub-bucket with an end.
local function add(ring, n, width, last, cost)
  local i = last / width % n + 4
  ring[3], ring[i] = last, ring[i] + cost
end

-- start returns the counters of a ring of l that begins with what its fullest sibling counts (of several, the widest): each count in
-- the sub-bucket that contains its end, but not in a later one than now's.
local function start(l, now)
  local from, n, ring, last = nil, l.n, {l.kind, l.width, 0}, endOf(l.width, now)
  for i = 1, #l.rings do
    local r = l.rings[i]
    if r.used > 0 and (not from or r.used > from.used or r.used == from.used and r.width > from.width) then
      from = r
    end
  end
  for i = 4, n + 3 do
    ring[i] = 0
  end
  for k = 0, from and from.n - 1 or -1 do
    local ends = from.ring[3] - k * from.width
    local counted = ends > 0 and from.ring[ends / from.width % from.n + 4] or 0
    if counted > 0 then
      add(ring, n, l.width, min(endOf(l.width, ends), last), counted)
    end
  end
  return ring, from and from.used or 0
end

-- charge adds cost, even if it does not fit, to all siblings. Siblings that count nothing are dropped.
function sliding.charge(l, now, cost)
  if not l.state then
    cost = min(cost, maxExact - l.used)
    l.used = l.used + cost
    add(l.ring, l.n, l.width, endOf(l.width, now), cost)
    return l.ring[3] + l.micros
  end
  local own, last = l.rings[0], 0
  if own.used == 0 then
    own.ring, own.used = start(l, now)
  end
  for i = 0, #l.rings do
    local r = l.rings[i]
    if r.used > 0 or i == 0 then
      local more = min(cost, maxExact - r.used)
      r.used = r.used + more
      add(r.ring, r.n, r.width, endOf(r.width, now), more)
      r.state.text = pack(formats[r.n + 3], unpack(r.ring))
      l.used, last = max(l.used, r.used), max(last, r.ring[3] + l.micros)
    end
  end
  l.ring = own.ring
  return last
end

function sliding.put(l, words, n)
  local ring = l.ring
  for i = 3, l.size do
    words[n + i] = ring[i]
  end
end

-- giveBack takes cost back from the sub-bucket of an instant in a ring, and reports whether it counts anything.
local function giveBack(ring, n, width, at, cost)
  local ends, newest = endOf(width, at), ring[3]
  local i = ends / width % n + 4
  if ends > newest or ends <= newest - n * width or ring[i] == 0 then
    return false
  end
  ring[i] = max(0, ring[i] - cost)
  local left = n
  while left > 0 and ring[ring[3] / width % n + 4] == 0 do
    ring[3], left = ring[3] - width, left - 1
  end
  ring[3] = left > 0 and ring[3] or 0
  return true
end

-- refund takes back a charge of cost at an earlier instant from all siblings, as far as it still counts. It returns whether that
-- changes the state of l itself, unless its pair was taken apart.
function sliding.refund(l, now, at, _, cost)
  if not l.pair.states then
    l.ring = {unpackWords(l.form, l.pair.value, l.place)}
    return giveBack(l.ring, l.n, l.width, at, cost)
  end
  for i = 0, #l.siblings do
    local s = l.siblings[i] or l.state
    local ring, n, width = read(l, s, now)
    if giveBack(ring, n, width, at, cost) then
      s.text, l.pair.dirty = pack(formats[n + 3], unpack(ring)), true
    end
  end
  return false
end

function sliding.report(l, now)
  return reportUsed(l, now, untilUsed)
end

function sliding.ends(text)
  local kind, _, newest = unpackWords(formats[3], text)
  return newest == 0 and 0 or newest + floorDiv(kind, 24)
end

function sliding.grantEnds(l, now)
  return now + l.micros
end

function sliding.compile(l)
  l.width, l.sibling = l.unit, l.unit
  l.n = ringSize(l.micros, l.width)
  l.most = math.huge
end

algorithms[8] = sliding
