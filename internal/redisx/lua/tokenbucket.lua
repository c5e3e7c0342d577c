-- The state of a TokenBucket: each request raises its level by one period, and it drains at a rate. Mirrors
-- internal/algorithm.
--
-- The words of its record: level (+1), at (+2), busy (+3), rate (+4), and rest (+5), which is the slowest rate named since the
-- bucket was last empty, times 4, plus the code of its tick. A bucket of one rate has a slowest rate of 0. Its lows are a further
-- record: see lows.lua.
local tokenBucket = {size = bucketSize, replied = 3}
local tickOf = {[0] = 1, 1000, 1000000, 1}

-- coarse returns a rate with its seven highest bits, all others 0.
local function coarse(rate)
  local step = 1
  while rate >= 128 * step do
    step = 2 * step
  end
  return rate - rate % step
end

-- slowestRate returns the slowest rate at which the bucket has to drain.
local function slowestRate(w, o)
  local rest = w[o + 5]
  return rest < 4 and w[o + 4] or floorDiv(rest, 4)
end

-- drained returns level and at as they are at now, if the bucket drains at rate. Time that does not fill a tick is counted later,
-- unless it empties the bucket.
local function drained(level, at, tick, rate, now)
  local rest = (now - at) % tick
  level = level - (now - at - rest) / tick * rate
  if level < 0 or level <= rate and level * tick <= rate * rest then
    return 0, now
  end
  return level, now - rest
end

-- toTicks counts the level in the ticks of l: the requests used stay the same, rounded up. What the lows say is lost.
local function toTicks(w, o, l)
  local code = w[o + 5] % 4
  if code ~= l.code then
    w[o + 1] = w[o + 1] > 0 and mulDivUp(w[o + 1], l.period, ceilDiv(l.micros, tickOf[code])) or 0
    w[o + 5] = w[o + 5] - code + l.code
    forgetLows(w, o)
  end
end

-- busyOf returns busy, which counts for at most 2^32 - 1 microseconds.
local function busyOf(w, o)
  return max(w[o + 3], w[o + 2] - 4294967295)
end

-- rewind has the bucket follow a clock that went back to now. What would have drained until then is still to drain, but the clock
-- never fills a bucket above its capacity.
local function rewind(w, o, l, now)
  toTicks(w, o, l)
  local level, rate = w[o + 1], min(w[o + 4], l.rate)
  local full = max(level, l.full)
  local ticks = ceilDiv(w[o + 2] - now, l.unit)
  w[o + 1] = ticks > floorDiv(full - level, rate) and full or level + ticks * rate
  w[o + 2], w[o + 3] = now, min(busyOf(w, o), now)
  forgetLows(w, o)
end

-- isForgotten reports whether the bucket is empty at now even at the slowest rate that it has to drain at.
local function isForgotten(w, o, now)
  return w[o + 1] == 0 or now > w[o + 2] and drained(w[o + 1], w[o + 2], tickOf[w[o + 5] % 4], slowestRate(w, o), now) == 0
end

-- name prepares a bucket that another rate was named for, or whose ticks are others. Between two requests it drains at
-- the slower of their rates, unless it is empty even at the slowest one. It returns the rate at which the bucket drains
-- until now, and whether the new rate must be stored.
local function name(w, o, l, now)
  local before, slowest = w[o + 4], slowestRate(w, o)
  if isForgotten(w, o, now) then
    w[o + 1], w[o + 4], w[o + 5] = 0, l.rate, l.code
    return l.rate, l.rate ~= before and l.pair.heldCount > 0
  end
  toTicks(w, o, l)
  w[o + 4] = l.rate
  if l.rate ~= before then
    w[o + 5] = 4 * coarse(min(slowest, l.rate)) + l.code
    if l.peek and before < l.rate then -- another claim has named a slower rate since
      w[o + 4] = before
    end
  end
  return min(before, l.rate), l.rate ~= before
end

-- isBroken reports whether the record makes no sense.
local function isBroken(w, o)
  return w[o + 1] > maxExact or w[o + 4] == 0 or w[o + 4] > maxExact or w[o + 5] > maxExact or w[o + 5] % 4 == 3
end

-- mend repairs a record that makes no sense, or has the bucket follow a clock that went back to now. It returns whether it did
-- either, and whether it has repaired the record.
local function mend(w, o, l, now)
  if isBroken(w, o) then
    return repair(w, o, l, now), true
  elseif w[o + 2] > now then
    rewind(w, o, l, now)
    return true, false
  end
  return false, false
end

-- prepare makes the bucket ready to drain at the rate that it returns, and reports whether it must be stored even if
-- nothing is charged: because the clock went back, the request names another rate, or what is stored makes no sense. It
-- returns nil if nothing drains.
local function prepare(w, o, l, now)
  if l.rate == 0 then -- nothing drains, nothing is admitted
    return nil, false
  end
  local mended, isNew = mend(w, o, l, now)
  if isNew then
    return nil, true
  end
  local rate, named = name(w, o, l, now)
  return rate, mended or named
end

-- load brings the bucket to now, and reports whether it must be stored even if nothing is charged.
function tokenBucket.load(w, o, l, now)
  local rate, unit, store = l.rate, l.unit, false
  if anyOdd then
    rate, store = prepare(w, o, l, now)
    if not rate then
      return store
    end
  end
  local passed = now - w[o + 2]
  local rest = passed % unit
  local level = w[o + 1] - (passed - rest) / unit * rate -- as in drained
  if level < 0 or level <= rate and level * unit <= rate * rest then
    w[o + 1], w[o + 2], w[o + 5] = 0, now, l.code
  else
    w[o + 1], w[o + 2] = level, now - rest
  end
  return store
end

-- nameRate has the bucket remember the rate of l before any limit of the request is evaluated, and reports whether it
-- must be stored. A peek names no slower rate. A rate that the bucket knows does not drain it: another limit of the
-- request may name a slower one.
function tokenBucket.nameRate(w, o, l, now)
  if l.rate == 0 then
    return false
  end
  local mended, isNew = mend(w, o, l, now)
  if isNew then
    return true
  end
  local before = w[o + 4]
  return (l.rate > before or l.rate < before and not l.peek) and tokenBucket.load(w, o, l.naming or l, now) or mended
end

-- drainTo returns how long after now the bucket, which is at now, takes to drain to target at its rate.
local function drainTo(w, o, tick, now, target)
  local level, rate = w[o + 1], w[o + 4]
  if level <= target then
    return 0
  end
  local ticks = ceilDiv(level - target, rate)
  if tick == 1 then
    return ticks
  elseif ticks > floorDiv(maxExact, tick) then
    return maxExact
  end
  local wait = ticks * tick
  local last = level - (ticks - 1) * rate
  if last <= rate then -- empties within this tick
    wait = wait + (ceilDiv(last * tick, rate) - tick) -- in this order, or else wait may exceed maxExact
  end
  return max(0, wait - (now - w[o + 2])) -- a faster rate than before may have emptied it
end

-- wait returns how long after now the bucket admits cost, or -1 for never.
function tokenBucket.wait(w, o, l, now, cost)
  local target = l.full - cost * l.period
  if w[o + 1] <= target then
    return 0
  elseif target < 0 then
    return -1
  end
  return drainTo(w, o, l.unit, now, target)
end

-- raise adds cost, even if it does not fit, and returns the level.
local function raise(w, o, l, cost)
  local before = w[o + 1]
  if before < l.period then
    w[o + 3] = w[o + 2]
  end
  local lows = o + bucketSize
  if w[lows] == lowsKind and w[lows + 1 + 2 * w[lows + 1]] > before then -- the last low is the highest
    capLows(w, o, before)
  end
  local level = before + cost * l.period
  if level > maxExact then
    level = maxExact
  end
  w[o + 1] = level
  return level
end

-- charge adds cost, even if it does not fit. If that leaves less than one request free where one was, a ban raises the level, so
-- that the next request fits when the ban ends.
function tokenBucket.charge(w, o, l, now, cost)
  local before, at = w[o + 1], w[o + 2]
  local level = raise(w, o, l, cost)
  if l.ban > 0 then
    local lastFree = l.full - l.period
    if before <= lastFree and level > lastFree then
      level = max(level, min(lastFree + l.rate * ceilDiv(l.ban + now - at, l.unit), maxExact))
    end
  end
  w[o + 1] = level
  return at + level / w[o + 4] * l.unit
end

-- finishAt charges what ended holds become, each at its end, to a bucket that drains at rate meanwhile. A bucket that
-- stands after the end of a hold, because the clock went back, is charged as it stands.
local function finishAt(w, o, l, rate, held, ended)
  for n = 1, #ended, 2 do
    local at, counts = ended[n], held
    if not isForgotten(w, o, at) then
      counts = true
      toTicks(w, o, l)
      if at > w[o + 2] then
        w[o + 1], w[o + 2] = drained(w[o + 1], w[o + 2], l.unit, rate, at)
      end
      if w[o + 1] == 0 then
        w[o + 5] = l.code
      elseif w[o + 4] ~= rate then
        w[o + 5] = 4 * coarse(min(slowestRate(w, o), rate)) + l.code
      end
      w[o + 4] = rate
    elseif held then
      w[o + 1], w[o + 2], w[o + 4], w[o + 5] = 0, max(w[o + 2], at), rate, l.code
    end
    if counts then
      tokenBucket.charge(w, o, l, max(w[o + 2], at), ended[n + 1])
    end
  end
end

-- finish charges what ended holds become, a list of instants and costs. If the request names a slower rate, and is no
-- peek, the bucket drains at that one meanwhile, unless it is forgotten at now anyway.
function tokenBucket.finish(w, o, l, held, now, ended)
  if isBroken(w, o) then -- load repairs it
    return
  end
  local before = {unpack(w, o + 1, o + 5)}
  finishAt(w, o, l, before[4], held, ended)
  if not l.peek and l.rate < before[4] and not isForgotten(w, o, now) then
    w[o + 1], w[o + 2], w[o + 3], w[o + 4], w[o + 5] = unpack(before)
    finishAt(w, o, l, l.rate, held, ended)
  end
end

-- keep has the bucket remember the rate of l, by which a hold that ends is charged.
function tokenBucket.keep(w, o, l, now)
  if w[o + 4] ~= l.rate then
    tokenBucket.load(w, o, l, now)
  end
end

-- refund takes back what a charge of cost at an earlier instant certainly still counts for. The bucket must not have been loaded.
function tokenBucket.refund(w, o, l, now, at, cost)
  if l.rate == 0 then
    return
  end
  mend(w, o, l, now)
  toTicks(w, o, l)
  local sure, last = min(cost, l.capacity) * l.period, w[o + 2]
  if at < last then
    local n, whole, ticks = lowFor(w, o, at), min(sure, l.period), ceilDiv(max(0, now - at), l.unit)
    local low = n > 0 and min(sure, w[o + bucketSize + 1 + 2 * n]) or 0
    if w[o + 4] ~= l.rate or w[o + 5] >= 4 or ticks > floorDiv(sure, l.rate) then
      sure = 0
    else
      sure = sure - ticks * l.rate
    end
    sure = max(sure, low, at >= busyOf(w, o) and whole or 0)
    lowerLows(w, o, n, sure)
    if sure > 0 then -- the charges since then found less in the bucket
      w[o + 3] = last
    end
  end
  w[o + 1] = max(0, w[o + 1] - sure)
end

-- grant gives back n requests, at most what was used, or takes them away if n is negative. A ban stays. What is given back
-- leaves the bucket at its instant: it drains to the same level, and a refund still knows that nothing was charged since. What
-- is taken away counts from now on, like a charge.
function tokenBucket.grant(w, o, l, now, n)
  mend(w, o, l, now)
  toTicks(w, o, l)
  local before = {unpack(w, o + 1, o + 5)}
  tokenBucket.load(w, o, l, now)
  if n < 0 then
    raise(w, o, l, -n)
  elseif w[o + 1] > 0 then
    local isBanned = l.ban > 0 and w[o + 1] > l.full - l.period
    w[o + 1], w[o + 2], w[o + 3], w[o + 4], w[o + 5] = unpack(before)
    if not isBanned then
      w[o + 1] = max(0, w[o + 1] - n * l.period)
      if hasLows(w, o) then
        capLows(w, o, w[o + 1])
      end
    end
  end
end

-- watch has the bucket, which has just been charged ahead, know from now on how much of that still counts.
function tokenBucket.watch(w, o, now)
  addLow(w, o, now)
end

-- remaining returns how many requests fit.
function tokenBucket.remaining(w, o, l, now)
  local level = w[o + 1]
  if l.unit > 1 and level <= w[o + 4] and level * l.unit <= w[o + 4] * (now - w[o + 2]) then
    -- a faster rate than before has emptied it
    return l.capacity
  end
  return floorDiv(max(0, l.full - level), l.period)
end

-- report returns the level, and how long before now the bucket had it.
function tokenBucket.report(w, o, _, now)
  return w[o + 1], now - w[o + 2]
end

-- ends returns when the bucket no longer matters, not rounded. If cost is charged at an instant, it is what
-- that changes it to.
function tokenBucket.ends(w, o, l, at, cost)
  if not anyRare then
    return w[o + 2] + w[o + 1] / w[o + 4] * l.unit
  end
  local level, rate, tick = w[o + 1], slowestRate(w, o), tickOf[w[o + 5] % 4]
  if at then
    level = max(0, level - (at - w[o + 2]) / tick * rate) + cost * l.period
  end
  return (at or w[o + 2]) + level / rate * tick
end

-- discard removes what is stored beside the record: its lows.
tokenBucket.discard = forgetLows

-- compile adds to a limit what the functions of a bucket need of it.
function tokenBucket.compile(l)
  l.code = l.unit == 1 and 0 or l.unit == 1000 and 1 or 2 -- its place in tickOf
  l.period = ceilDiv(l.micros, l.unit)
  l.full = l.capacity * l.period
  if l.peek then
    l.naming = setmetatable({peek = false}, {__index = l})
  end
end

-- empty writes an empty record.
function tokenBucket.empty(w, o, l)
  w[o], w[o + 1], w[o + 2], w[o + 3], w[o + 4], w[o + 5] = l.kind, 0, 0, 0, max(l.rate, 1), l.code
end

tokenBucket.forget = tokenBucket.empty

-- fill makes the record one of a limit that is just used up.
function tokenBucket.fill(w, o, l, now)
  w[o + 1], w[o + 2], w[o + 3], w[o + 4], w[o + 5] = l.full, now, now, max(l.rate, 1), l.code
end

-- limitOf returns the limit of a record that no request names: it drains as the last request said, and admits anything.
function tokenBucket.limitOf(w, o)
  local code, rate, micros = w[o + 5] % 4, max(w[o + 4], 1), floorDiv(w[o], 16)
  return {
    rate = rate, code = code, unit = tickOf[code], micros = micros, period = ceilDiv(micros, tickOf[code]), full = maxExact, ban = 0,
  }
end
