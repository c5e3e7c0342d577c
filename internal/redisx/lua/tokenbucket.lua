-- The state of a TokenBucket: a meter that each request raises by one period and that drains at the rate.
-- See core/tokenbucket.go. No function but charge changes the bucket that it is given.
-- ends is that of the section: see pair.lua.
local function tokenBucket()
  -- rescale returns the level when a changed limit counts in other ticks: the requests used stay the same, rounded up.
  local function rescale(b, l)
    if b.tick == l.tick or b.level == 0 then
      return b.level
    end
    return mulDivUp(b.level, l.period, ceilDiv(l.micros, b.tick))
  end

  -- rewind returns b after the clock went back to now, or nil if it did not. What would have drained until b.at is
  -- still to drain, but a bucket never holds more than a full one because of the clock.
  local function rewind(b, l, now)
    if b.at <= now or l.rate == 0 then
      return nil
    end
    local level = rescale(b, l)
    local full = max(level, l.capacity * l.period)
    local ticks = ceilDiv(b.at - now, l.tick)
    if ticks > floorDiv(full - level, l.rate) then
      level = full
    else
      level = level + ticks * l.rate
    end
    return {level = level, at = now, busy = min(b.busy, now), tick = l.tick, ends = 0}
  end

  -- settle returns b, which is not from later, as it is at now. Time that does not fill a tick stays to be counted later,
  -- unless it empties b.
  local function settle(b, l, now)
    local rate, tick = l.rate, l.tick
    if rate == 0 then -- nothing drains, nothing is admitted
      return b
    end
    local level, elapsed = rescale(b, l), now - b.at
    local rest = elapsed % tick
    local ticks = (elapsed - rest) / tick
    if ticks > floorDiv(level, rate) then
      return {level = 0, at = now, busy = b.busy, tick = tick, ends = 0}
    end
    level = level - ticks * rate
    if level <= rate and level * tick <= rate * rest then
      return {level = 0, at = now, busy = b.busy, tick = tick, ends = 0}
    end
    return {level = level, at = now - rest, busy = b.busy, tick = tick, ends = 0}
  end

  -- shrink returns how long after now a settled b takes to drain to target. In Go it is called until.
  local function shrink(b, l, now, target)
    if b.level <= target then
      return 0
    end
    local ticks = ceilDiv(b.level - target, l.rate)
    if ticks > floorDiv(maxExact, l.tick) then
      return maxExact
    end
    local wait = ticks * l.tick
    local last = b.level - (ticks - 1) * l.rate
    if last <= l.rate then -- empties within this tick
      wait = wait + (ceilDiv(last * l.tick, l.rate) - l.tick) -- added up before, lest wait exceed maxExact
    end
    return wait - (now - b.at)
  end

  -- wait returns how long after now a settled b admits cost, which is at most the capacity.
  local function wait(b, l, now, cost)
    return shrink(b, l, now, (l.capacity - cost) * l.period)
  end

  -- charge puts cost into a settled b.
  local function charge(b, l, now, cost)
    if b.level < l.period then
      b.busy = b.at
    end
    b.busy = max(b.busy, b.at - maxBusy)
    b.level = b.level + cost * l.period
    return b
  end

  -- refund returns b, settled or not, without what a charge of cost at an earlier instant surely still counts for.
  local function refund(b, l, now, at, cost)
    local sure, busy = cost * l.period, b.busy
    if at < b.at then
      local whole = min(sure, l.period)
      local ticks = ceilDiv(max(0, now - at), l.tick)
      if l.rate > 0 and ticks > floorDiv(sure, l.rate) then
        sure = 0
      else
        sure = max(0, sure - ticks * l.rate)
      end
      if at >= b.busy then
        sure = max(sure, whole)
      end
      if sure > 0 then -- later charges found less in the bucket than busy says
        busy = b.at
      end
    end
    return {level = max(0, rescale(b, l) - sure), at = b.at, busy = busy, tick = l.tick, ends = 0}
  end

  -- report returns what a settled b leaves: its level, and the time that is still to be counted. The client knows what
  -- that means: see usage.go.
  local function report(b, _, now)
    return b.level, max(0, now - b.at), 0
  end

  -- lasts returns for how many microseconds after now b matters.
  local function lasts(b, l, now)
    return max(0, shrink(b, l, b.at, 0) - (now - b.at))
  end

  local ticks = {[0] = 1, 1000, 1000000}

  -- codeOf returns where tick is among ticks. It is no table: miniredis takes one of a million numbers for that.
  local function codeOf(tick)
    if tick == 1 then
      return 0
    elseif tick == 1000 then
      return 1
    end
    return 2
  end

  -- read returns what write wrote, or nil if it makes no sense.
  local function read(s, section)
    local level, at, busy = unpackWords('<I8I8I8', s, section.start + 2 * word)
    local tick = ticks[section.kind % 4]
    if tick and max(level, at, busy) <= maxExact then
      return {level = level, at = at, busy = busy, tick = tick, ends = 0}
    end
  end

  return {
    rewind = rewind, settle = settle, wait = wait, charge = charge, refund = refund, report = report, lasts = lasts,
    read = read,
    write = function(b, kind)
      return packWords('<I8I8I8I8I8', kind + codeOf(b.tick), b.ends, b.level, b.at, b.busy)
    end,
    empty = function(l)
      return {level = 0, at = 0, busy = 0, tick = l.tick, ends = 0}
    end,
    full = function(l, now)
      return {level = l.capacity * l.period, at = now, busy = now, tick = l.tick, ends = 0}
    end,
  }
end
