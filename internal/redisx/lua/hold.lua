-- Keeps what a pair holds for requests in flight, and its ban.
-- Uses floorTo, max, maxExact, min (number), pack, sub, unpackWords, word (word), expiryOf (expiry), holdLife, holdSize,
-- holdWidth (plainhold), firstFrom (block).
--
-- The field hold is that of plainhold.lua. The field ban has two words: the expiry of its key and until when nothing fits.

local function lastHold(h)
  return unpackWords('<I8I8I8', h.text, #h.text - holdSize + 1)
end

-- setHold replaces a sub-bucket, counted from 0. Beyond the last one it adds one.
local function setHold(h, i, start, cost, count)
  local record = count > 0 and pack('<I8I8I8', start, cost, count) or ''
  h.text = sub(h.text, 1, holdSize * i) .. record .. sub(h.text, holdSize * (i + 1) + 1)
  h.changed = true
end

-- addHold holds cost from now on, for count requests.
local function addHold(h, now, cost, count)
  local start, i = floorTo(now, holdWidth), #h.text / holdSize
  h.cost, h.count = min(h.cost + cost, maxExact), h.count + count
  if i > 0 then
    local last, lastCost, lastCount = lastHold(h)
    if last >= start then
      start, cost, count, i = last, cost + lastCost, count + lastCount, i - 1
    end
  end
  setHold(h, i, start, cost, count)
end

-- advanceHolds drops what has ended. What is from later, because the clock went back, counts as if made now.
local function advanceHolds(h, now)
  while h.text ~= '' do
    local start, cost, count = unpackWords('<I8I8I8', h.text)
    if start + holdLife > now then
      break
    end
    h.cost, h.count = max(0, h.cost - cost), max(0, h.count - count)
    h.text = sub(h.text, holdSize + 1)
  end
  local current, cost, count = floorTo(now, holdWidth), 0, 0
  while h.text ~= '' and lastHold(h) > current do
    local _, laterCost, laterCount = lastHold(h)
    cost, count = cost + laterCost, count + laterCount
    h.text = sub(h.text, 1, #h.text - holdSize)
  end
  if count > 0 then
    h.cost, h.count = h.cost - cost, h.count - count
    addHold(h, now, cost, count)
  end
  if h.text == '' then
    h.cost, h.count = 0, 0
  end
end

-- releaseHold ends a hold of cost made at an instant, and returns how much it held and 1, or 0 and 0 if it has ended.
local function releaseHold(h, at, cost)
  if at == 0 or h.text == '' then
    return 0, 0
  end
  local wanted = min(floorTo(at, holdWidth), (lastHold(h)))
  local i = firstFrom(h.text, holdSize, wanted)
  local start, held, count = unpackWords('<I8I8I8', h.text, holdSize * i + 1)
  if start ~= wanted then
    return 0, 0
  end
  local released = min(cost, held)
  setHold(h, i, start, held - released, count - 1)
  h.cost, h.count = max(0, h.cost - (count == 1 and held or released)), max(0, h.count - 1)
  return released, 1
end

local function holdsEnd(h)
  return h.text == '' and 0 or lastHold(h) + holdLife
end

-- readHolds returns what a field says, and whether it makes sense.
local function readHolds(value, now)
  local h = {cost = 0, count = 0, text = '', changed = false}
  if not value then
    return h, true
  end
  if #value % holdSize ~= 0 or not expiryOf(value, now) then
    h.changed = true
    return h, false
  end
  local _
  _, h.cost, h.count = unpackWords('<I8I8I8', value)
  h.text = sub(value, holdSize + 1)
  if max(h.cost, h.count) > maxExact then
    return readHolds('x', now)
  end
  advanceHolds(h, now)
  return h, true
end

local function readBan(value)
  if value and #value == 2 * word then
    local _, ends = unpackWords('<I8I8', value)
    return ends
  end
  return 0
end
