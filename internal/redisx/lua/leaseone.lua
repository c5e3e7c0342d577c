-- Decides leased requests of one plain token bucket that has become empty and whose pair has no other state, as that of most grants.
-- The results equal those of plainlease.lua. What was charged to the bucket before has drained: nothing of it can be given back.
-- Uses floorDiv, maxExact, min (number), pack, unpackWords, word (word), call, filled, reply, tryCall (reply), bucketSize, maxPlain (plain),
-- storeOne (plainone).

-- openEmpty returns the first word of the bucket of a limit, or nil if it is not as plain requests leave it or not empty.
local function openEmpty(l, key, now)
  local value = tryCall('HGET', key, l.name)
  if value and #value ~= bucketSize and #value ~= bucketSize + 2 * word or call('HLEN', key) > (value and 1 or 0) then
    return nil
  elseif not value then
    return 0
  end
  local expires, level, at, busy, rate, slowest = unpackWords('<I8I8I8I8I8I8', value)
  if rate ~= l.rate or slowest ~= 0 or at > now or busy > at or level > maxPlain or expires > (now + 2 * maxExact) / 1000 then
    return nil
  end
  return level <= (now - at) * rate and expires or nil
end

-- decideLeasedOne decides the request whose key is KEYS[first], of a plain plan with one limit, which is leased, unless its state is
-- another, and reports whether it did.
local function decideLeasedOne(plan, first, now, numbers, start)
  local l, key = plan[1], KEYS[first]
  local known = openEmpty(l, key, now)
  if not known then
    return false
  end
  local ahead = min(unpackWords('<I8', numbers, start), floorDiv(floorDiv(l.target, l.micros), 2))
  local level = l.charge + ahead * l.micros
  reply[filled + 1] = storeOne(l, key, now, known, level, now, ahead > 0 and pack('<I8I8', now, level) or '')
  reply[filled + 2] = ahead
  filled = filled + 2
  return true
end
