-- The state of a TokenBucket: each request raises its level by one period, and it drains at a rate. Mirrors
-- internal/algorithm.
-- Uses ceilDiv, floorDiv, max, maxExact, min, mulDivUp (number), pack, unpackWords, word (word), maxBusy (limit), addLow, boundLows,
-- lowOf, lowsIn, noLows, readLows, returnedLows, writeLows (lows).
--
-- A state has six words: the expiry of its key (see pair.lua), level, at, busy, rate, and slowest · 4 + the code of its
-- tick. After them it has its lows, if it is leased. No function but charge and watch changes the state that it is given.
local tokenBucket = {}
local tickOf = {[0] = 1, 1000, 1000000}

-- codeOf returns the place of a tick in tickOf. It is no table, since miniredis allocates one of a million numbers for that.
local function codeOf(tick)
  if tick == 1 then
    return 0
  end
  return tick == 1000 and 1 or 2
end

-- coarse returns a rate with its seven highest bits, all others 0.
local function coarse(rate)
  local step = 1
  while rate >= 128 * step do
    step = 2 * step
  end
  return rate - rate % step
end

-- drain returns level and at of a bucket as they are at now, if it drains at rate. Time that does not fill a tick is
-- counted later, unless it empties the bucket.
local function drain(level, at, tick, rate, now)
  local rest = (now - at) % tick
  local ticks = (now - at - rest) / tick
  if ticks > floorDiv(level, rate) then
    return 0, now
  end
  level = level - ticks * rate
  if level <= rate and level * tick <= rate * rest then
    return 0, now
  end
  return level, now - rest
end

-- inTicks returns the level counted in the ticks of l: the requests used stay the same, rounded up.
local function inTicks(b, l)
  if b.tick == l.unit or b.level == 0 then
    return b.level
  end
  return mulDivUp(b.level, l.period, ceilDiv(l.micros, b.tick))
end

local function slowestRate(b)
  return b.slowest > 0 and b.slowest or b.rate
end

-- isForgotten reports whether b is empty even if it drain at the slowest rate named since it was last empty.
local function isForgotten(b, now)
  return b.level == 0 or drain(b.level, b.at, b.tick, slowestRate(b), now) == 0
end

-- rewind returns b after the clock went back to now, or nil if it did not. What would have drain until b.at is still to
-- drain, but the clock never fills a bucket above its capacity.
function tokenBucket.rewind(b, l, now)
  if b.at <= now or l.rate == 0 then
    return nil
  end
  local level, rate = inTicks(b, l), min(b.rate, l.rate)
  local full = max(level, l.capacity * l.period)
  local ticks = ceilDiv(b.at - now, l.unit)
  if ticks > floorDiv(full - level, rate) then
    level = full
  else
    level = level + ticks * rate
  end
  return {level = level, at = now, busy = min(b.busy, now), tick = l.unit, rate = b.rate, slowest = b.slowest, lows = noLows}
end

-- advance returns b, which is not from later, as it is at now. Between two requests it drains at the slower of their rates.
function tokenBucket.advance(b, l, now)
  if l.rate == 0 then -- nothing drains, nothing is admitted
    return b
  end
  if isForgotten(b, now) then
    return {level = 0, at = now, busy = b.busy, tick = l.unit, rate = l.rate, slowest = 0, lows = noLows}
  end
  local level, at = drain(inTicks(b, l), b.at, l.unit, min(b.rate, l.rate), now)
  local rate, slowest = l.rate, b.slowest
  if level == 0 then
    slowest = 0
  elseif rate ~= b.rate then
    slowest = coarse(min(slowestRate(b), rate))
  end
  if l.peek and b.rate < rate then -- another claim has named a slower rate since
    rate = b.rate
  end
  return {level = level, at = at, busy = max(b.busy, at - maxBusy), tick = l.unit, rate = rate, slowest = slowest, lows = lowsIn(b, l)}
end

-- name returns b with the rate of l as the one named last, or nil if it is so or does not matter. A peek names no slower rate.
function tokenBucket.name(b, l, now)
  if l.rate > 0 and (l.rate > b.rate or l.rate < b.rate and not l.peek) and not isForgotten(b, now) then
    local named = tokenBucket.advance(b, l, now)
    named.rate = l.rate
    return named
  end
end

-- drainTo returns how long after now an advanced b takes to drain to target at rate.
local function drainTo(b, rate, now, target)
  if b.level <= target then
    return 0
  end
  local ticks = ceilDiv(b.level - target, rate)
  if ticks > floorDiv(maxExact, b.tick) then
    return maxExact
  end
  local wait = ticks * b.tick
  local last = b.level - (ticks - 1) * rate
  if last <= rate then -- empties within this tick
    wait = wait + (ceilDiv(last * b.tick, rate) - b.tick) -- in this order, or else wait may exceed maxExact
  end
  return max(0, wait - (now - b.at)) -- a faster rate than before may have emptied b
end

-- wait returns how long after now an advanced b admits cost, which is at most the capacity.
function tokenBucket.wait(b, l, now, cost)
  return drainTo(b, b.rate, now, (l.capacity - cost) * l.period)
end

-- charge adds cost to an advanced b. If that leaves less than one request free where one was, a ban raises the level, so that
-- the next request fits when the ban ends.
function tokenBucket.charge(b, l, now, cost)
  local lastFree, before = (l.capacity - 1) * l.period, b.level
  if before < l.period then
    b.busy = b.at
  end
  b.busy, b.lows = max(b.busy, b.at - maxBusy), boundLows(b.lows, before)
  if cost > floorDiv(maxExact - before, l.period) then
    b.level = maxExact
  else
    b.level = before + cost * l.period
  end
  if l.ban > 0 and before <= lastFree and b.level > lastFree then
    b.level = max(b.level, min(lastFree + l.rate * ceilDiv(l.ban + now - b.at, l.unit), maxExact))
  end
  return b
end

-- watch has b, which has just been charged ahead, know from now on how much of that still counts.
function tokenBucket.watch(b, now)
  b.lows = addLow(b.lows, now, b.level)
end

-- refund returns b, advanced or not, without what a charge of cost at an earlier instant certainly still counts for.
function tokenBucket.refund(b, l, now, at, cost)
  local sure, busy, lows = cost * l.period, b.busy, lowsIn(b, l)
  if at < b.at then
    local whole, low = min(sure, l.period), min(sure, lows[lowOf(lows, at)] or 0)
    local ticks = ceilDiv(max(0, now - at), l.unit)
    if b.rate ~= l.rate or b.slowest > 0 or ticks > floorDiv(sure, b.rate) then
      sure = 0
    else
      sure = sure - ticks * b.rate
    end
    if at >= b.busy then
      sure = max(sure, whole)
    end
    sure = max(sure, low)
    lows = returnedLows(lows, at, sure)
    if sure > 0 then -- the charges since then found less in the bucket
      busy = b.at
    end
  end
  return {
    level = max(0, inTicks(b, l) - sure), at = b.at, busy = busy, tick = l.unit, rate = b.rate, slowest = b.slowest, lows = lows,
  }
end

-- report returns what an advanced b leaves: remaining, refill, reset.
function tokenBucket.report(b, l, now)
  local remaining = floorDiv(max(0, l.capacity * l.period - b.level), l.period)
  if b.level <= b.rate and b.level * b.tick <= b.rate * (now - b.at) then -- a faster rate than before has emptied b
    remaining = l.capacity
  end
  if remaining == l.capacity or b.rate == 0 then
    return remaining, 0, 0
  end
  return remaining, drainTo(b, b.rate, now, (l.capacity - remaining - 1) * l.period), drainTo(b, b.rate, now, 0)
end

-- ends returns when b no longer matters.
function tokenBucket.ends(b)
  return b.at + max(0, drainTo(b, slowestRate(b), b.at, 0))
end

function tokenBucket.decode(s)
  local lows = #s >= 6 * word and readLows(s, 6 * word + 1)
  if not lows then
    return nil
  end
  local _, level, at, busy, rate, slowest = unpackWords('<I8I8I8I8I8I8', s)
  local tick = tickOf[slowest % 4]
  if tick and rate > 0 and max(level, at, busy, rate, slowest) <= maxExact then
    return {level = level, at = at, busy = busy, tick = tick, rate = rate, slowest = (slowest - slowest % 4) / 4, lows = lows}
  end
end

function tokenBucket.encode(b, expires)
  return pack('<I8I8I8I8I8I8', expires, b.level, b.at, b.busy, b.rate, b.slowest * 4 + codeOf(b.tick)) .. writeLows(b.lows)
end

function tokenBucket.empty(l)
  return {level = 0, at = 0, busy = 0, tick = l.unit, rate = l.rate, slowest = 0, lows = noLows}
end

function tokenBucket.full(l, now)
  return {level = l.capacity * l.period, at = now, busy = now, tick = l.unit, rate = max(l.rate, 1), slowest = 0, lows = noLows}
end
