-- Keeps what a pair holds for requests in flight, without a table for each pair. The results equal those of hold.lua.
-- Uses ceilDiv, floorDiv, floorTo, max, maxExact, min (number), pack, sub, unpackWords, word (word), call (reply),
-- expiryWith (expiry).
--
-- The field hold has three words, the expiry of its key, the cost and the number of all holds, and then sub-buckets of 6 s, oldest
-- first: start, cost and number of the holds made in it. A sub-bucket ends 66 s after its start.
local holdWidth, holdLife = 6000000, 66000000
local holdSize = 3 * word
local hint = 1000000 -- the wait that is reported where only holds are in the way
local heldTexts, heldCosts, heldCounts = {}, {}, {} -- of the pairs of the request being decided, by place
local openUntil = {} -- the expiries of these pairs as far as known, in milliseconds

-- openHolds reads the field hold of a pair into heldTexts (its sub-buckets), heldCosts, heldCounts and openUntil. It reports whether
-- the field is valid, no sub-bucket has ended and none begins after now.
local function openHolds(place, value, now)
  if not value then
    heldTexts[place], heldCosts[place], heldCounts[place], openUntil[place] = '', 0, 0, 0
    return true
  elseif #value < 2 * holdSize or #value % holdSize ~= 0 then
    return false
  end
  local expires, cost, count, oldest = unpackWords('<I8I8I8I8', value)
  local newest = unpackWords('<I8', value, #value - holdSize + 1)
  if expires > (now + 2 * maxExact) / 1000 or max(cost, count) > maxExact or newest <= oldest and #value > 2 * holdSize then
    return false
  elseif oldest + holdLife <= now or newest > floorTo(now, holdWidth) then
    return false
  end
  heldTexts[place], heldCosts[place], heldCounts[place], openUntil[place] = sub(value, holdSize + 1), cost, count, expires
  return true
end

-- storeHolds stores what a pair holds.
local function storeHolds(place, key, now)
  local text, milliseconds = heldTexts[place], floorDiv(now, 1000)
  if text == '' then
    call('HDEL', key, 'hold')
    return
  end
  local known, ends = openUntil[place], unpackWords('<I8', text, #text - holdSize + 1) + holdLife
  local expires = expiryWith(key, known, ceilDiv(ends, 1000), milliseconds)
  call('HSET', key, 'hold', pack('<I8I8I8', expires, heldCosts[place], heldCounts[place]) .. text)
  if expires > known then
    call('PEXPIRE', key, expires - milliseconds)
  end
end

-- addPlainHold adds a hold of cost to a pair.
local function addPlainHold(place, now, cost)
  local text, start, total, count = heldTexts[place], floorTo(now, holdWidth), cost, 1
  if text ~= '' then
    local last, lastCost, lastCount = unpackWords('<I8I8I8', text, #text - holdSize + 1)
    if last == start then
      text, total, count = sub(text, 1, #text - holdSize), total + lastCost, count + lastCount
    end
  end
  heldTexts[place] = text .. pack('<I8I8I8', start, total, count)
  heldCosts[place], heldCounts[place] = min(heldCosts[place] + cost, maxExact), heldCounts[place] + 1
end

-- releasePlainHold ends a hold of cost made at an instant if it is in the oldest or in the newest sub-bucket of the pair, and
-- reports whether it is.
local function releasePlainHold(place, at, cost)
  local text = heldTexts[place]
  if at == 0 or text == '' then
    return false
  end
  local wanted, i = floorTo(at, holdWidth), #text - holdSize
  local start, held, count = unpackWords('<I8I8I8', text, i + 1)
  if wanted < start then
    i = 0
    start, held, count = unpackWords('<I8I8I8', text)
    if wanted ~= start then
      return false
    end
  end
  local released = min(cost, held)
  local record = count > 1 and pack('<I8I8I8', start, held - released, count - 1) or ''
  heldTexts[place] = sub(text, 1, i) .. record .. sub(text, i + holdSize + 1)
  heldCosts[place] = max(0, heldCosts[place] - (count == 1 and held or released))
  heldCounts[place] = max(0, heldCounts[place] - 1)
  return true
end
