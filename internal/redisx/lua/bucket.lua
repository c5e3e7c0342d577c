-- The state of a TokenBucket: each request raises its level by one period, and it drains at its rate. Mirrors internal/algorithm.
--
-- Its words: kind, rate, level, at, busy, and raised, the part of the level that bans have added. A tick is a microsecond, a
-- millisecond or a second: 0, 1 or 2 more in kind, its code, says which.
--
-- Buckets of one period are siblings. Each drains at its own rate, and the fullest one says what is used.
local bucket = {hasSiblings = true, isRead = true}
local tickOf = {[0] = 1, 1000, 1000000} -- microseconds of a tick, by code
local maxBusy = 4294967295 -- microseconds that busy may lie before at

-- read returns the level, at, busy and raised of stored words in ticks of l: the requests used stay the same, rounded up. It returns nil if
-- that makes no sense. A state may be later than now because the clock went back. What would have drained until then is still to drain, but
-- the clock never fills a bucket above its capacity, and an empty bucket equals a new one. At the end of a hold, a state may be later.
local function read(l, now, tag, _, level, at, busy, raised)
  if not l.state or level > maxExact or raised > maxExact then
    return nil
  end
  if tag ~= l.tag then
    local period = ceilDiv(l.micros, tickOf[tag % 4])
    level, raised = mulDivUp(level, l.period, period), mulDivUp(raised, l.period, period)
  end
  busy = max(busy, at - maxBusy)
  if at > now and not l.ended then
    if level > 0 then
      local most, ticks = max(level, l.full), ceilDiv(at - now, l.unit)
      level = ticks > floorDiv(most - level, l.rate) and most or level + ticks * l.rate
    end
    at, busy = now, min(busy, now)
    l.set(level, at, busy, raised)
    rewrite(l)
  end
  return level, at, busy, raised
end

-- join makes an opened bucket as full as its fullest sibling. What it did not hold itself is not given back.
function bucket.join(l, now)
  local _, _, level, at = l.words()
  if l.others > level then
    at = max(at, now)
    l.set(l.others, at, at, 0)
  end
end

-- booked returns the level of an opened bucket before and after a booking: a charge for a request that waits for its turn. Until its
-- turn, the bucket is more than full. While the pair is banned, the level before is at least what drains until the ban ends, and what
-- siblings hold then: the turns of requests that wait for its end begin there. If siblings make the request wait, the bucket is full when
-- they no longer do.
function bucket.booked(l, now, cost)
  local _, _, level, at = l.words()
  local ban = l.pair.bannedUntil - now
  if ban > 0 then
    local used = 0
    for _, one in ipairs(l.siblings or none) do
      one.open(one.state.text, 1, now + ban)
      used = max(used, one.used())
      one.open(one.state.text, 1, now)
    end
    level = max(level, min(used + l.rate * ceilDiv(ban + max(0, now - at), l.unit), maxExact))
  end
  local after = level + cost * l.period
  if l.behind > 0 then
    after = max(after, l.full + l.rate * ceilDiv(l.behind + max(0, now - at), l.unit))
  end
  return level, after
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

-- refund takes back what a charge of cost at an earlier instant certainly still counts for, from the bucket's own state.
function bucket.refund(l, now, at, turn, cost)
  local level, last, busy, raised = read(l, now, unpackWords(sixWords, l.state.text))
  local all = min(cost, l.capacity) * l.period
  local sure = all
  if turn then
    sure = unbooked(l, level, last, now, at, turn, all)
  elseif at < last then
    sure = max(left(l, all, now - at), at >= busy and min(all, l.period) or 0)
  end
  local rest = max(0, level - sure)
  l.set(rest, last, at < last and last or busy, min(raised, rest)) -- charges since then found less
  if sure > 0 and level > 0 then
    store(l)
  end
end

-- giveBack lowers all siblings by n requests, at most by what was used. A ban stays. A bucket drains as before, and a refund still
-- knows what was charged since. A reset ends refunds of charges that the level no longer shows.
function bucket.giveBack(l, now, n)
  if l.ban > 0 and max(l.used(), l.others) > l.full - l.period then
    return
  end
  local siblings = l.siblings or none
  for i = 0, #siblings do
    local one = siblings[i] or l
    local level, at, busy, raised = read(one, now, unpackWords(sixWords, one.state.text))
    if i == 0 or raised == 0 then
      level = max(0, level - n * l.period)
    else -- only what was used, and not the ban of another rate
      raised = raised + n * l.period
    end
    one.set(level, at, busy, min(raised, level))
    if not one.state.isNew then
      addCell(l.pair, newCell(resetCell, min(bucket.ends(one.state.text), maxExact), 0, 0))
      store(one)
    end
  end
end

-- ends returns the instant from which a state is empty.
function bucket.ends(text)
  local tag, rate, level, at = unpackWords(fourWords, text)
  local tick = tickOf[tag % 4]
  return level == 0 and 0 or at + (level * tick <= maxExact and ceilDiv(level * tick, rate) or mulDivUp(level, tick, rate))
end

-- sizeOf returns how many words a state has, or nil if there is none with these words.
function bucket.sizeOf(tag, rate)
  return tickOf[tag % 4] and rate > 0 and rate <= maxExact and 6
end

-- compile adds to a limit what the functions of a bucket need, and the functions that share its opened state: see pair.lua.
function bucket.compile(l)
  local rate, unit, ban = l.rate, l.unit, l.ban
  local tag = l.kind + (unit == 1 and 0 or unit == 1000 and 1 or unit == 1000000 and 2 or 3)
  local period, pace = ceilDiv(l.micros, unit), unit / rate
  local full = l.capacity * period
  local last, level, at, busy, raised = full - period, 0, 0, 0, 0
  l.tag, l.sibling, l.period, l.full, l.least, l.lasts, l.drains = tag, rate, period, full, 0, ban, period * pace

  function l.words(...) return tag, rate, level, at, busy, raised, ... end
  function l.set(...) level, at, busy, raised = ... end
  function l.used() return l.isSibling and level - raised or level end -- siblings do not see what bans have added

  function l.untilUsed(now, target)
    if l.isSibling then
      target = target + raised
    end
    if level <= target then
      return 0
    end
    local ticks = ceilDiv(level - target, rate)
    local more, rest = at - now, level - (ticks - 1) * rate
    if rest <= rate then -- empties within this tick
      more = more + ceilDiv(rest * unit, rate) - unit
    end
    return min(max(0, ticks * unit + more), maxExact)
  end

  -- open brings the bucket to now, and returns its level. Time that does not fill a tick is counted later, unless it empties the bucket.
  function l.open(text, place, now)
    local itsTag, itsRate, left, since, busySince, byBans = unpackWords(sixWords, text, place)
    if itsTag ~= tag or itsRate ~= rate or since > now or left > maxExact or byBans > maxExact then
      left, since, busySince, byBans = read(l, now, itsTag, itsRate, left, since, busySince, byBans)
      if not left then
        return nil
      end
      now = max(since, now)
    end
    local passed = now - since
    local rest = passed % unit
    left = left - (passed - rest) / unit * rate
    if left <= rate and left * unit <= rate * rest then
      left, rest = 0, 0
    end
    level, at, busy, raised = left, now - rest, busySince, byBans
    return left
  end

  -- charge adds cost, even if it does not fit, and returns when that has drained. If that leaves less than one request free where one was,
  -- before the bucket joined its siblings, a ban raises the level, so that the next request fits when the ban ends. book gives the levels
  -- before and after the charge.
  function l.charge(now, cost, own, before, after)
    before = before or level
    after = after or before + cost * period
    after = after < maxExact and after or maxExact
    busy = before < period and at or busy
    if raised > before then
      raised = before
    end
    if ban > 0 and after > last and (own or before) <= last then
      level = min(max(after, last + rate * ceilDiv(ban + max(0, now - at), unit)), maxExact)
      raised, after = raised + level - after, level
    end
    level = after
    return at + after * pace
  end

  -- book charges cost for a request that waits for its turn, which is a whole tick.
  function l.book(now, cost)
    local before, after = bucket.booked(l, now, cost)
    local over = after - full
    if over > 0 then
      after = full + rate * ceilDiv(over, rate)
    end
    return l.charge(now, cost, math.huge, before, after) -- begins no ban
  end
end

algorithms[0] = bucket
