-- Decides requests of one plain token bucket whose pair has no other state. The results equal those of plain.lua.
-- Uses ceilDiv, floorDiv, maxExact (number), pack, unpackWords (word), call, filled, reply, tryCall (reply), maxBusy
-- (limit), expiryWith (expiry), bucketSize, decidePlain, maxPlain (plain).

-- storeOne stores a bucket that has just been charged, with its lows as bytes, and returns its level.
local function storeOne(l, key, now, known, level, busy, lows)
  local rate = l.rate
  local rest = level % rate
  local ends, expires = now + (level - rest) / rate + (rest > 0 and 1 or 0), known
  if ends > known * 1000 then
    expires = expiryWith(key, known, ceilDiv(ends, 1000), floorDiv(now, 1000))
  end
  call('HSET', key, l.name, pack('<I8I8I8I8I8I8', expires, level, now, busy, rate, 0) .. lows)
  if expires > known then
    call('PEXPIRE', key, expires - floorDiv(now, 1000))
  end
  return level
end

-- lowAfter returns the one low of a bucket that is charged at a level, as bytes: see lows.lua. A bucket that was empty has none.
local function lowAfter(value, level)
  local since, low = unpackWords('<I8I8', value, bucketSize + 1)
  if level <= 0 or since == 0 or low == 0 or since > maxExact or low > maxExact then
    return ''
  end
  return pack('<I8I8', since, low < level and low or level)
end

-- decideOne decides the request whose key is KEYS[first], of a plain plan with one limit that neither holds nor is leased, unless
-- its state is not plain, and reports whether it did. A pair of one field has neither holds nor a ban.
local function decideOne(plan, first, now)
  local l, key = plan[1], KEYS[first]
  local value, rate = tryCall('HGET', key, l.name), l.rate
  local known, level, busy, lows = 0, 0, 0, ''
  if value and #value ~= bucketSize and #value ~= bucketSize + 2 * word or call('HLEN', key) > (value and 1 or 0) then
    return decidePlain(plan, first, now)
  elseif value then
    local expires, before, at, last, named, slowest = unpackWords('<I8I8I8I8I8I8', value)
    if named ~= rate or slowest ~= 0 or at > now or last > at or before > maxPlain or expires > (now + 2 * maxExact) / 1000 then
      return false
    end
    before = before - (now - at) * rate
    known, level, busy = expires, before > 0 and before or 0, last
    lows = #value > bucketSize and lowAfter(value, level) or ''
  end
  if level < l.micros then
    busy = now
  elseif busy < now - maxBusy then
    busy = now - maxBusy
  end
  filled = filled + 1
  reply[filled] = level > l.target and -4 - level or storeOne(l, key, now, known, level + l.charge, busy, lows)
  return true
end
