-- Decides requests that have only token buckets, without a table for each bucket. The results equal those of tokenbucket.lua and
-- decide.lua.
-- Uses ceilDiv, floorDiv, maxExact (number), pack, sub, unpackWords, word (word), call, filled, reply, tryCall (reply),
-- maxBusy (limit), expiryWith (expiry).
--
-- A plan is plain if it has only token buckets in ticks of 1 µs, each a state of its own, and neither peeks, dry runs nor
-- bans, and the limits of each pair next to each other. If it holds, all its claims do, each of a pair of its own, and they may
-- have limits in flight too.
local maxPlain = maxExact - 4 -- of a level: -4 less that is exact too
local bucketSize = 6 * word
local levels, instants, busys, expiries = {}, {}, {}, {} -- of the buckets of the request being decided, by limit
local fields = {'HSET'} -- the command that stores several buckets
local openUntil = {} -- until when what the pairs of the request hold is certain to be kept, by place
local openHolds -- is in plainhold.lua

-- isPlainLimit reports whether a plain plan may have a limit.
local function isPlainLimit(l)
  return not l.peek and not l.dryRun and (l.letter == 'f' or l.letter == 'b' and l.unit == 1 and l.ban == 0 and l.rate > 0)
end

local function isPlain(plan)
  local place = 1
  plan.held = plan[1].hold
  for _, l in ipairs(plan) do
    local own = l.letter == 'b' and l.asked == l.cost or l.letter == 'f' and l.hold
    if not isPlainLimit(l) or not own or l.hold ~= plan.held or l.asked > l.capacity or l.place < place then
      return false
    end
    place = l.place
    l.charge = l.cost * l.micros
    l.target = l.capacity * l.micros - l.charge
  end
  return not plan.held or plan.claims == plan.keys and plan.leases == 0
end

-- openBucket sets levels, instants, busys and expiries of the bucket with a value, and reports whether it is as plain requests leave
-- it: in ticks of 1 µs, of no other rate, and not from later than now.
local function openBucket(i, rate, value, now)
  if not value then
    levels[i], instants[i], busys[i], expiries[i] = 0, 0, 0, 0
    return true
  elseif #value ~= bucketSize then
    return false
  end
  local expires, level, at, busy, before, slowest = unpackWords('<I8I8I8I8I8I8', value)
  if before ~= rate or slowest ~= 0 or at > now or busy > at or level > maxPlain or expires > (now + 2 * maxExact) / 1000 then
    return false
  end
  level = level - (now - at) * rate
  levels[i], instants[i], busys[i], expiries[i] = level > 0 and level or 0, at, busy, expires
  return true
end

-- openPairs opens the buckets of the request whose keys begin at KEYS[first], and reports whether all are as plain requests
-- leave them, nothing is banned, and something is held only if the plan holds. It sets lows, if given, to what those of
-- each bucket are as bytes: no other plan is plain if there are any.
local function openPairs(plan, first, now, lows)
  local held, place, values, n = plan.held, 0, nil, 0
  for i = 1, #plan do
    local l = plan[i]
    if l.place ~= place then
      local names = plan.names[l.place]
      place, n = l.place, #names - 2
      values = tryCall('HMGET', KEYS[first + place - 1], unpack(names))
      if values.err or values[n + 2] or values[n + 1] and not held or held and not openHolds(place, values[n + 1], now) then
        return false
      end
    end
    if l.letter == 'b' then -- the last one is named first
      local value = values[n]
      if lows then
        lows[i], value = sub(value or '', bucketSize + 1), value and sub(value, 1, bucketSize)
      end
      if not openBucket(i, l.rate, value, now) then
        return false
      end
      n = n - 1
      if held then
        if expiries[i] > openUntil[place] then
          openUntil[place] = expiries[i]
        end
        expiries[i] = openUntil[place]
      end
    end
  end
  return true
end

-- isDenied reports whether a bucket that is open has too little room.
local function isDenied(plan)
  for n = 1, #plan do
    if levels[n] > plan[n].target then
      return true
    end
  end
  return false
end

-- addCharge adds charge to a bucket that is open, and returns when it ends.
local function addCharge(i, l, now, charge)
  local level = levels[i]
  if level < l.micros then
    busys[i] = now
  elseif busys[i] < now - maxBusy then
    busys[i] = now - maxBusy
  end
  level = level + charge
  levels[i] = level
  local rest = level % l.rate
  return now + (level - rest) / l.rate + (rest > 0 and 1 or 0)
end

-- chargeBucket adds charge to a bucket that is open, stores it with lows, if given, and returns its level.
local function chargeBucket(i, l, key, now, charge, lows)
  local ends, known = addCharge(i, l, now, charge), expiries[i]
  local expires = known
  if ends > known * 1000 then
    expires = expiryWith(key, known, ceilDiv(ends, 1000), floorDiv(now, 1000))
  end
  local state = pack('<I8I8I8I8I8I8', expires, levels[i], now, busys[i], l.rate, 0)
  call('HSET', key, l.name, lows and state .. lows or state)
  if expires > known then
    call('PEXPIRE', key, expires - floorDiv(now, 1000))
  end
  return levels[i]
end

-- chargePair charges the buckets i to last of a request, which are those of the pair at key, and stores them in one step.
local function chargePair(plan, i, last, key, now)
  local known, ends = 0, 0
  for n = i, last do
    local l = plan[n]
    local own = addCharge(n, l, now, l.charge)
    ends, known = own > ends and own or ends, expiries[n] > known and expiries[n] or known
  end
  local expires, size = known, 2
  if ends > known * 1000 then
    expires = expiryWith(key, known, ceilDiv(ends, 1000), floorDiv(now, 1000))
  end
  fields[2] = key
  for n = i, last do
    local l = plan[n]
    fields[size + 1], fields[size + 2] = l.name, pack('<I8I8I8I8I8I8', expires, levels[n], now, busys[n], l.rate, 0)
    size = size + 2
  end
  call(unpack(fields, 1, size))
  if expires > known then
    call('PEXPIRE', key, expires - floorDiv(now, 1000))
  end
end

-- decidePlain decides the request whose keys begin at KEYS[first], unless its state is not plain, and reports whether it did. For
-- each limit it replies the level or, if the request is denied, -4 less the level.
local function decidePlain(plan, first, now)
  if not openPairs(plan, first, now) then
    return false
  end
  local size, denied, i = #plan, isDenied(plan), 1
  for n = 1, denied and 0 or size do
    if n == size or plan[n + 1].place ~= plan[n].place then
      chargePair(plan, i, n, KEYS[first + plan[n].place - 1], now)
      i = n + 1
    end
  end
  for n = 1, size do
    reply[filled + n] = denied and -4 - levels[n] or levels[n]
  end
  filled = filled + size
  return true
end
