-- Keeps what a pair holds for requests in flight, without a table for each pair. The results equal those of hold.lua.
-- Uses ceilDiv, floorDiv, floorTo, maxExact (number), pack, sub, unpackWords, word (word), call (reply),
-- expiryWith (expiry), openHolds, openUntil (plain).
--
-- The field hold has three words, the expiry of its key, the cost and the number of all holds, and then sub-buckets of 6 s, oldest
-- first: start, cost and number of the holds made in it. A sub-bucket ends 66 s after its start.
local holdWidth, holdLife = 6000000, 66000000
local holdSize = 3 * word
local hint = 1000000 -- the wait that is reported where only holds are in the way
local heldCosts, heldCounts = {}, {} -- of the pairs of the request being decided, by place
local olderHolds = {} -- their sub-buckets but the newest
local newestStarts, newestCosts, newestCounts = {}, {}, {} -- their newest ones; 0 for none

-- openHolds sets these tables and openUntil to what the field of a pair says, and reports whether that makes sense, and nothing has ended
-- or is from later.
function openHolds(place, value, now)
  if not value then
    heldCosts[place], heldCounts[place], openUntil[place], olderHolds[place] = 0, 0, 0, ''
    newestStarts[place], newestCosts[place], newestCounts[place] = 0, 0, 0
    return true
  elseif #value < 2 * holdSize or #value % holdSize ~= 0 then
    return false
  end
  local expires, cost, count, oldest, lastCost, lastCount = unpackWords('<I8I8I8I8I8I8', value)
  local newest, older = oldest, ''
  if #value > 2 * holdSize then
    newest, lastCost, lastCount = unpackWords('<I8I8I8', value, #value - holdSize + 1)
    older = sub(value, holdSize + 1, -holdSize - 1)
  end
  if expires > (now + 2 * maxExact) / 1000 or cost > maxExact or count > maxExact or newest <= oldest and older ~= '' then
    return false
  elseif oldest + holdLife <= now or newest > floorTo(now, holdWidth) then
    return false
  end
  heldCosts[place], heldCounts[place], openUntil[place], olderHolds[place] = cost, count, expires, older
  newestStarts[place], newestCosts[place], newestCounts[place] = newest, lastCost, lastCount
  return true
end

-- storeHolds stores what a pair holds.
local function storeHolds(place, key, now)
  local older, start, count = olderHolds[place], newestStarts[place], newestCounts[place]
  if count == 0 and older == '' then
    call('HDEL', key, 'hold')
    return
  end
  local known = openUntil[place]
  local expires = known
  if start + holdLife > known * 1000 then
    expires = expiryWith(key, known, ceilDiv(start + holdLife, 1000), floorDiv(now, 1000))
  end
  local value
  if older == '' then
    value = pack('<I8I8I8I8I8I8', expires, heldCosts[place], heldCounts[place], start, newestCosts[place], count)
  else
    local newest = count > 0 and pack('<I8I8I8', start, newestCosts[place], count) or ''
    value = pack('<I8I8I8', expires, heldCosts[place], heldCounts[place]) .. older .. newest
  end
  call('HSET', key, 'hold', value)
  if expires > known then
    call('PEXPIRE', key, expires - floorDiv(now, 1000))
  end
end

-- addPlainHold holds cost of a pair from now on.
local function addPlainHold(place, now, cost)
  local start, newest = floorTo(now, holdWidth), newestStarts[place]
  if newest ~= start then
    if newest > 0 then
      olderHolds[place] = olderHolds[place] .. pack('<I8I8I8', newest, newestCosts[place], newestCounts[place])
    end
    newestStarts[place], newestCosts[place], newestCounts[place] = start, 0, 0
  end
  newestCosts[place], newestCounts[place] = newestCosts[place] + cost, newestCounts[place] + 1
  local held = heldCosts[place] + cost
  heldCosts[place], heldCounts[place] = held < maxExact and held or maxExact, heldCounts[place] + 1
end

-- releasePlainHold ends a hold of cost made at an instant, and reports whether it is in the oldest sub-bucket of the pair or
-- in the newest.
local function releasePlainHold(place, at, cost)
  local wanted, older, newest = floorTo(at, holdWidth), olderHolds[place], newestStarts[place]
  local start, held, count = newest, newestCosts[place], newestCounts[place]
  if wanted < newest and older ~= '' then
    start, held, count = unpackWords('<I8I8I8', older)
  end
  if wanted < newest and wanted ~= start then
    return false
  end
  local given, left = cost < held and cost or held, count > 1 and count - 1 or 0
  if wanted >= newest then
    newestCosts[place], newestCounts[place] = held - given, left
  else
    olderHolds[place] = (left > 0 and pack('<I8I8I8', start, held - given, left) or '') .. sub(older, holdSize + 1)
  end
  local allCosts, all = heldCosts[place] - (count == 1 and held or given), heldCounts[place] - 1
  heldCosts[place], heldCounts[place] = allCosts > 0 and allCosts or 0, all > 0 and all or 0
  return true
end
