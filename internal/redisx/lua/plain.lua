-- Decides requests of token buckets alone, which most are, without tables for each: a busy server then decides several times as
-- many. What is done is what tokenbucket.lua and decide.lua do. Uses pack, unpackWords, word (word), reply, filled, call (reply),
-- floorDiv, ceilDiv, maxExact (number), maxBusy (tokenbucket), expiryWith (pair).
--
-- A plan is plain if it has only token buckets in ticks of 1 µs, each a state of its own, and neither peeks nor dry runs.
local maxPlain = maxExact - 3 -- of a level: -3 less that is exact too
local levels, busys, expiries = {}, {}, {} -- of the buckets of the request being decided, by limit

local function isPlain(plan)
  for _, l in ipairs(plan) do
    if l.letter ~= 'b' or l.unit ~= 1 or l.peek or l.dryRun or l.cost ~= l.asked or l.cost > l.capacity then
      return false
    end
    l.charge = l.cost * l.micros
    l.target = l.capacity * l.micros - l.charge
  end
  return true
end

-- openBucket sets levels, busys and expiries of the bucket at key, and reports whether it is as plain requests leave it: in
-- ticks of 1 µs, of no other rate, and not from later than now.
local function openBucket(i, l, key, now)
  local value = redis.pcall('HGET', key, l.name)
  if not value then
    levels[i], busys[i], expiries[i] = 0, 0, 0
    return true
  end
  if #value ~= 6 * word then -- or an error
    return false
  end
  local expires, level, at, busy, rate, slowest = unpackWords('<I8I8I8I8I8I8', value)
  if rate ~= l.rate or slowest ~= 0 or at > now or busy > at or level > maxPlain or expires > (now + 2 * maxExact) / 1000 then
    return false
  end
  level = level - (now - at) * rate
  levels[i], busys[i], expiries[i] = level > 0 and level or 0, busy, expires
  return true
end

-- chargeBucket charges and stores a bucket that is open, and returns its level.
local function chargeBucket(i, l, key, now)
  local level, busy, known = levels[i], busys[i], expiries[i]
  if level < l.micros then
    busy = now
  elseif busy < now - maxBusy then
    busy = now - maxBusy
  end
  level = level + l.charge
  local ends, milliseconds = now + ceilDiv(level, l.rate), floorDiv(now, 1000)
  local expires = expiryWith(key, known, ceilDiv(ends, 1000), milliseconds)
  call('HSET', key, l.name, pack('<I8I8I8I8I8I8', expires, level, now, busy, l.rate, 0))
  if expires > known then
    call('PEXPIRE', key, expires - milliseconds)
  end
  return level
end

-- decidePlain decides the request whose keys begin at KEYS[first], and reports whether it could. Of each limit it replies the
-- level or, if the request is denied, -3 less the level.
local function decidePlain(plan, first, now)
  local denied = false
  for i = 1, #plan do
    local l = plan[i]
    if not openBucket(i, l, KEYS[first + l.place - 1], now) then
      return false
    end
    denied = denied or levels[i] > l.target
  end
  for i = 1, #plan do
    if denied then
      reply[filled + i] = -3 - levels[i]
    else
      reply[filled + i] = chargeBucket(i, plan[i], KEYS[first + plan[i].place - 1], now)
    end
  end
  filled = filled + #plan
  return true
end
