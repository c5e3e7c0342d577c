-- The state of a SlidingWindow: what was admitted in each sub-bucket and still counts, oldest first. See core/sliding.go.
-- The entries stay text, of which entries first to beyond-1 count, so that a decision reads only those it drops or
-- changes. Each is 26 digits: 16 of the stamp and 10 of the count.
local function slidingWindow()
  local width = 26

  -- entry returns the stamp and the count of an entry: 0 and 0 if there is none.
  local function entry(q, i)
    local at = width * i
    return tonumber(sub(q.text, at + 1, at + 16)) or 0, tonumber(sub(q.text, at + 17, at + width)) or 0
  end

  local function textOf(stamp, count)
    return format('%016d%010d', stamp, min(count, 9999999999))
  end

  -- with returns a queue of the entries of q from its first to the one before i, and one more.
  local function with(q, i, used, stamp, count)
    local text = sub(q.text, width * q.first + 1, width * i) .. textOf(stamp, count)
    return {used = used, text = text, first = 0, beyond = i - q.first + 1, last = stamp, ends = 0}
  end

  -- queue returns one of all entries in text.
  local function queue(text, used)
    local q = {used = used, text = text, first = 0, beyond = #text / width, last = 0, ends = 0}
    q.last = entry(q, q.beyond - 1)
    return q
  end

  local function empty()
    return {used = 0, text = '', first = 0, beyond = 0, last = 0, ends = 0}
  end

  -- stampOf returns what a limit remembers of a request at now: the end of its sub-bucket.
  local function stampOf(l, now)
    return floorTo(now, l.width) + l.width
  end

  -- clamp returns q with every stamp lowered to limit, which the newest exceeds.
  local function clamp(q, limit)
    local i, merged = q.beyond, 0
    while i > q.first do
      local stamp, count = entry(q, i - 1)
      if stamp < limit then
        break
      end
      i, merged = i - 1, merged + count
    end
    return with(q, i, q.used, limit, merged)
  end

  -- rewind returns q after the clock went back to now, or nil if it did not: a stamp later than one of the widest
  -- sub-bucket, half a period, counts as if made now.
  local function rewind(q, l, now)
    if q.last > now + ceilDiv(l.micros, 2) then
      return clamp(q, stampOf(l, now))
    end
  end

  -- settle drops what no longer counts at now.
  local function settle(q, l, now)
    local i, used = q.first, q.used
    while i < q.beyond do
      local stamp, count = entry(q, i)
      if stamp + l.micros > now then
        return {used = used, text = q.text, first = i, beyond = q.beyond, last = q.last, ends = 0}
      end
      i, used = i + 1, used - count
    end
    return empty()
  end

  -- shrink returns how long after now a settled q takes to shrink to target. What stands in a sub-bucket that was wider
  -- than it would be now counts as if made now. In Go it is called until.
  local function shrink(q, l, now, target)
    local left = q.used
    if left <= target then
      return 0
    end
    local stamp, count, i = q.last, 0, q.first
    while left > target and target > 0 and i < q.beyond do
      stamp, count = entry(q, i)
      left, i = left - count, i + 1
    end
    return min(stamp, stampOf(l, now)) + l.micros - now
  end

  -- charge returns a settled q with cost in it.
  local function charge(q, l, now, cost)
    local stamp = stampOf(l, now)
    if q.last > stamp then
      q = clamp(q, stamp)
    end
    if q.last == stamp then
      local _, count = entry(q, q.beyond - 1)
      return with(q, q.beyond - 1, q.used + cost, stamp, count + cost)
    end
    return with(q, q.beyond, q.used + cost, stamp, cost)
  end

  -- refund returns q, settled or not, without a charge of cost at an earlier instant, if it holds that.
  local function refund(q, l, _, at, cost)
    local wanted = stampOf(l, at)
    for i = q.beyond - 1, q.first, -1 do
      local stamp, count = entry(q, i)
      if stamp == wanted then
        local given = min(count, cost)
        local instead = given < count and textOf(stamp, count - given) or ''
        local text = sub(q.text, 1, width * i) .. instead .. sub(q.text, width * (i + 1) + 1)
        return queue(text, q.used - given)
      end
    end
    return q
  end

  return {
    rewind = rewind, settle = settle, charge = charge, refund = refund, empty = empty,

    -- wait returns how long after now a settled q admits cost, which is at most the rate.
    wait = function(q, l, now, cost)
      return shrink(q, l, now, l.rate - cost)
    end,

    -- report returns what a settled q leaves: remaining, refill, reset.
    report = function(q, l, now)
      local remaining = max(0, l.rate - q.used)
      if remaining == l.rate then
        return remaining, 0, 0
      end
      return remaining, shrink(q, l, now, l.rate - remaining - 1), shrink(q, l, now, 0)
    end,

    -- lasts returns for how many microseconds after now q matters.
    lasts = function(q, l, now)
      return q.last + l.micros - now
    end,

    read = function(s, section)
      local used, bytes = unpackWords('<I8I8', s, section.start + 2 * word)
      if used <= maxExact and bytes % width == 0 then
        return queue(sub(s, section.start + 4 * word, section.after - 1), used)
      end
    end,
    write = function(q, kind)
      local text = sub(q.text, width * q.first + 1)
      return packWords('<I8I8I8I8', kind, q.ends, q.used, #text) .. text
    end,
    full = function(l, now)
      return with(empty(), 0, l.rate, stampOf(l, now), l.rate)
    end,
  }
end
