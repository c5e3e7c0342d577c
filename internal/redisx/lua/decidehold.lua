-- Decides plain requests that hold. The results equal those of decide.lua.
-- Uses ceilDiv, floorDiv (number), filled, reply (reply), addPlainHold, heldCosts, heldCounts, hint, storeHolds
-- (plainhold), levels, openPairs (plain).
local retries = {} -- of the request being decided, by limit

-- waitHeld returns how long the cost has to wait for an open limit, and whether only holds are in the way.
local function waitHeld(i, l)
  local held = false
  if l.letter == 'f' then
    held = heldCounts[l.place] + 1 > l.capacity
  elseif levels[i] > l.target then
    return ceilDiv(levels[i] - l.target, l.rate), false
  else
    held = levels[i] + heldCosts[l.place] * l.micros > l.target
  end
  return held and hint or 0, held
end

-- replyHeld replies the four numbers of a limit.
local function replyHeld(i, l)
  local remaining, refill, reset, held = l.capacity, 0, 0, heldCounts[l.place]
  if l.letter == 'b' then
    local level, full = levels[i], l.capacity * l.micros
    remaining, held = level < full and floorDiv(full - level, l.micros) or 0, heldCosts[l.place]
    if remaining < l.capacity then
      refill, reset = ceilDiv(level - full + (remaining + 1) * l.micros, l.rate), ceilDiv(level, l.rate)
    end
  end
  local least = held > 0 and hint or 0
  reply[filled + 1], reply[filled + 2] = retries[i], remaining > held and remaining - held or 0
  reply[filled + 3], reply[filled + 4] = refill > least and refill or least, reset > least and reset or least
  filled = filled + 4
end

-- decideHeld decides the request whose keys begin at KEYS[first], unless its state is not plain, and reports whether it did.
local function decideHeld(plan, first, now)
  if not openPairs(plan, first, now) then
    return false
  end
  local admitted, anyHeld = true, false
  for i = 1, #plan do
    local retry, held = waitHeld(i, plan[i])
    retries[i], admitted, anyHeld = retry, admitted and retry == 0, anyHeld or held
  end
  for i = 1, admitted and #plan or 0 do
    local l = plan[i]
    if l.begins then
      addPlainHold(l.place, now, l.cost)
      storeHolds(l.place, KEYS[first + l.place - 1], now)
    end
  end
  filled = filled + 1
  reply[filled] = anyHeld and -3 or -1
  for i = 1, #plan do
    replyHeld(i, plan[i])
  end
  return true
end
