-- The state of a TokenBucket: each request raises its level by one period, and it drains at its rate. Mirrors internal/algorithm.
--
-- Its words: kind, rate, level, at, busy, and raised, the part of the level that bans have added. A tick is a microsecond, a
-- millisecond or a second: 0, 1 or 2 more in kind, its code, says which.
--
-- Buckets of one period are siblings. Each drains at its own rate, and the fullest one says what is used.
local bucket = {size = 6}
local tickOf = {[0] = 1, 1000, 1000000} -- microseconds of a tick, by code
local sixWords = formats[6]
local maxBusy = 4294967295 -- microseconds that busy may lie before at

-- drained returns level and at as they are at now, if the bucket drains at rate. Time that does not fill a tick is counted later,
-- unless it empties the bucket.
local function drained(level, at, tick, rate, now)
  local passed = max(0, now - at)
  local rest = passed % tick
  level = level - (passed - rest) / tick * rate
  if level <= 0 or level <= rate and level * tick <= rate * rest then
    return 0, at + passed
  end
  return level, at + passed - rest
end

-- untilLevel returns how long after now a bucket takes to drain to target at a rate.
local function untilLevel(l, level, at, rate, now, target)
  if level <= target then
    return 0
  end
  local tick, rest = l.unit, (level - target) % rate
  local ticks = (level - target - rest) / rate
  if rest > 0 then
    ticks = ticks + 1
  end
  if tick == 1 then
    return min(ticks, maxExact)
  elseif ticks > floorDiv(2 * maxExact, tick) then
    return maxExact
  end
  local more, last = at - now, level - (ticks - 1) * rate
  if last <= rate then -- empties within this tick
    more = more + ceilDiv(last * tick, rate) - tick
  end
  return min(max(0, ticks * tick + more), maxExact)
end

-- read returns a stored bucket in ticks of l: the requests used stay the same, rounded up. It returns nil if that makes no sense.
local function read(l, text, place)
  local tag, _, level, at, busy, raised = unpackWords(formats[6], text, place)
  if level > maxExact or raised > maxExact then
    return nil
  end
  if tag ~= l.tag then
    local period = ceilDiv(l.micros, tickOf[tag % 4])
    level, raised = mulDivUp(level, l.period, period), mulDivUp(raised, l.period, period)
  end
  return level, at, max(busy, at - maxBusy), min(raised, level)
end

-- write stores a state in ticks of l.
local function write(l, s, level, at, busy, raised)
  s.text, l.pair.dirty = pack(formats[6], l.tag, s.sibling, level, at, max(0, busy), min(raised, level)), true
end

-- mend has a state follow a clock that went back to now. What would have drained until then is still to drain, but the clock never
-- fills a bucket above its capacity. At the end of a hold, a state may be later. mend reports false if the state makes no sense.
local function mend(l, s, now)
  local level, at, busy, raised = read(l, s.text)
  if level and at > now and not l.ended then
    local full, ticks = max(level, l.full), ceilDiv(at - now, l.unit)
    level = ticks > floorDiv(full - level, s.sibling) and full or level + ticks * s.sibling
    write(l, s, level, now, min(busy, now), raised)
  end
  return level
end

-- openAmong opens a bucket whose pair was taken apart, and looks at its siblings.
local function openAmong(l, now)
  local own, siblings, wait = l.state, l.siblings, 0
  if not mend(l, own, now) then
    return repair(l, own, now)
  end
  local level, at, busy, raised = read(l, own.text)
  level, at = drained(level, at, l.unit, l.rate, now)
  l.level, l.at, l.busy, l.raised, l.others, l.behind = level, at, busy, min(raised, level), 0, 0
  for _, s in ipairs(siblings) do
    if not mend(l, s, now) then
      return repair(l, s, now)
    end
    level, at, busy, raised = read(l, s.text)
    level, at = drained(level, at, l.unit, s.sibling, now)
    raised = min(raised, level)
    l.others = max(l.others, level - raised)
    if l.room >= 0 then
      l.behind = max(l.behind, untilLevel(l, level, at, s.sibling, now, l.room + raised))
    end
  end
  if l.room < 0 then
    return -1
  elseif l.level > l.room then
    wait = untilLevel(l, l.level, l.at, l.rate, now, l.room)
  end
  return max(wait, l.behind)
end

-- open brings the bucket to now, and returns how long after now it admits what it is asked.
function bucket.open(l, text, place, now)
  if l.state then
    return openAmong(l, now)
  end
  local tag, rate, level, at, busy, raised = unpackWords(sixWords, text, place)
  if tag ~= l.tag or rate ~= l.rate or at > now or level > maxExact or raised > maxExact then
    return nil
  end
  local unit, passed = l.unit, now - at
  local rest = passed % unit
  level = level - (passed - rest) / unit * rate -- as in drained
  if level <= 0 or level <= rate and level * unit <= rate * rest then
    level, at = 0, now
  else
    at = now - rest
  end
  l.level, l.at, l.busy, l.raised = level, at, busy, raised
  if level <= l.room then
    return 0
  elseif l.room < 0 then
    return -1
  end
  return untilLevel(l, level, at, rate, now, l.room)
end

-- seeFullest makes an opened bucket as full as its fullest sibling. What it did not hold itself is not given back.
local function seeFullest(l, now)
  if l.others > l.level then
    local at = max(l.at, now)
    l.level, l.at, l.busy, l.raised = l.others, at, at, 0
  end
end

-- charge adds cost, even if it does not fit. If that leaves less than one request free where one was, a ban raises the level, so
-- that the next request fits when the ban ends.
function bucket.charge(l, now, cost)
  local before, period, at = l.level, l.period, l.at
  if l.state then
    seeFullest(l, now)
    at = l.at
  end
  local level, last = l.level, l.full - period
  if level < period then
    l.busy = at
  end
  if l.raised > level then
    l.raised = level
  end
  level = level + cost * period
  if level > maxExact then
    level = maxExact
  end
  if l.ban > 0 and before <= last and level > last then
    local raised = max(level, min(last + l.rate * ceilDiv(l.ban + max(0, now - at), l.unit), maxExact))
    l.raised, level = l.raised + raised - level, raised
  end
  l.level = level
  return at + level / l.rate * l.unit
end

-- booked returns the level of an opened bucket before and after a booking: a charge for a request that waits for its turn. Until its
-- turn, the bucket is more than full. While the pair is banned, the level before is at least what drains until the ban ends: the
-- turns of requests that wait for its end begin there. If siblings make the request wait, the bucket is full when they no longer do.
local function booked(l, now, cost)
  local level, at, ban = l.level, l.at, l.pair.bannedUntil - now
  if l.state and l.others > level then
    level, at = l.others, max(at, now)
  end
  if ban > 0 then
    level = max(level, min(l.rate * ceilDiv(ban + max(0, now - at), l.unit), maxExact))
  end
  local after = level + cost * l.period
  if l.state and l.behind > 0 then
    after = max(after, l.full + l.rate * ceilDiv(l.behind + max(0, now - at), l.unit))
  end
  return level, after
end

-- canBook reports whether the bucket can hold what it is asked on top of what is booked.
function bucket.canBook(l, now)
  local _, after = booked(l, now, l.asked)
  return after <= maxExact
end

-- book charges cost for a request that waits for its turn, which is a whole tick.
function bucket.book(l, now, cost)
  local before, level = booked(l, now, cost)
  if l.state then
    seeFullest(l, now)
  end
  if before < l.period then
    l.busy = l.at
  end
  l.raised = min(l.raised, before)
  local over = level - l.full
  if over > 0 then
    level = l.full + l.rate * ceilDiv(over, l.rate)
  end
  l.level = min(level, maxExact)
  return l.at + l.level / l.rate * l.unit
end

function bucket.put(l, words, n)
  words[n + 3], words[n + 4], words[n + 5], words[n + 6] = l.level, l.at, l.busy, l.raised
end

-- left returns how much of a level is left after some time at least.
local function left(l, level, passed)
  local ticks = ceilDiv(max(0, passed), l.unit)
  return ticks <= floorDiv(level, l.rate) and level - ticks * l.rate or 0
end

-- unbooked returns how much of a charge counts for a request with a turn: all if nothing was charged behind it, nothing while others
-- wait behind it, and then what cannot have drained since its turn. If the clock went back since, the turn did, too.
local function unbooked(l, level, last, now, at, turn, all)
  if at - last >= l.unit then
    turn = turn - (at - last)
  end
  if turn >= last and level - l.full <= l.rate * ceilDiv(turn - last, l.unit) then
    return all
  elseif level - l.full > l.rate * floorDiv(max(0, now - last), l.unit) then
    return 0
  end
  return left(l, all, now - turn)
end

-- refund takes back what a charge of cost at an earlier instant certainly still counts for, from the bucket's own state. It returns
-- whether that changes it.
function bucket.refund(l, now, at, turn, cost)
  local text, place = stored(l)
  local level, last, busy, raised = read(l, text, place)
  local all = min(cost, l.capacity) * l.period
  local sure = all
  if turn then
    sure = unbooked(l, level, last, now, at, turn, all)
  elseif at < last then
    sure = max(left(l, all, now - at), at >= busy and min(all, l.period) or 0)
  end
  l.level, l.at, l.busy = max(0, level - sure), last, max(0, at < last and last or busy) -- charges since then found less
  l.raised = min(raised, l.level)
  return sure > 0 and level > 0
end

-- giveBack lowers all siblings by n requests, at most by what was used. A ban stays. A bucket drains as before, and a refund still
-- knows what was charged since.
function bucket.giveBack(l, n)
  if l.ban > 0 and max(l.level, l.others) > l.full - l.period then
    return
  end
  local function lower(s, isOwn)
    local level, at, busy, raised = read(l, s.text)
    if isOwn or raised == 0 then
      write(l, s, max(0, level - n * l.period), at, busy, raised)
    else -- only what was used, and not the ban of another rate
      write(l, s, level, at, busy, min(level, raised + n * l.period))
    end
  end
  lower(l.state, true)
  for _, s in ipairs(l.siblings) do
    lower(s, false)
  end
end

-- report returns how many requests fit, and the waits until there is one more and until the bucket is empty.
function bucket.report(l, now)
  local level, period, rate, free, missing = l.level, l.period, l.rate, 0, l.level - l.full + l.period
  local most = l.state and l.others > level and l.others or level
  if most == 0 then
    return l.capacity, 0, 0
  elseif most < l.full then
    local room = l.full - most
    free = (room - room % period) / period
    missing = level - l.full + (free + 1) * period
  end
  local target, at = level - missing, l.at
  local refill, reset = untilLevel(l, level, at, rate, now, target), untilLevel(l, level, at, rate, now, 0)
  for _, s in ipairs(l.siblings or {}) do
    local from, raised, _
    level, from, _, raised = read(l, s.text)
    level, from = drained(level, from, l.unit, s.sibling, now)
    raised = min(raised, level)
    refill = max(refill, untilLevel(l, level, from, s.sibling, now, target + raised))
    reset = max(reset, untilLevel(l, level, from, s.sibling, now, raised))
  end
  return free, refill, reset
end

-- tell replies the level, and how old that is. It returns how much of the reply there is.
function bucket.tell(l, out, n, now)
  out[n + 1], out[n + 2], out[n + 3] = l.wait, l.level, now - l.at
  return n + 3
end

-- ends returns the instant from which a state is empty.
function bucket.ends(text)
  local tag, rate, level, at = unpackWords(formats[4], text)
  local tick = tickOf[tag % 4]
  return level == 0 and 0 or at + (level * tick <= maxExact and ceilDiv(level * tick, rate) or mulDivUp(level, tick, rate))
end

-- compile adds to a limit what the functions of a bucket need of it.
function bucket.compile(l)
  l.tag = l.kind + (l.unit == 1 and 0 or l.unit == 1000 and 1 or 2)
  l.period, l.sibling = ceilDiv(l.micros, l.unit), l.rate
  l.full = l.capacity * l.period
end

algorithms[0] = bucket
