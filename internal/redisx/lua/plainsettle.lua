-- Settles held requests of token buckets and limits in flight, without a table for each limit. The results equal those of
-- settleany.lua.
-- Uses word, unpackWords (word), filled, reply (reply), settleWords (limit), chargeBucket, isPlainLimit, levels, maxPlain, openPairs (plain),
-- releasePlainHold, storeHolds (plainhold).
local finals = {} -- of the request being settled, by place

-- isPlainSettle reports whether requests of a plan can be settled here, provided that they held.
local function isPlainSettle(plan)
  for _, l in ipairs(plan) do
    if not isPlainLimit(l) or l.asked > 0 then
      return false
    end
  end
  plan.held = true
  return plan.claims == plan.keys
end

-- releaseAll ends the holds of an open request and sets finals, and reports whether all its claims are plain.
local function releaseAll(plan, numbers, start)
  for i = 1, #plan do
    local l = plan[i]
    if l.begins then
      local at, cost, final, ban, flags = unpackWords('<I8I8I8I8I8', numbers, start)
      start = start + settleWords * word
      if flags ~= 1 or ban > 0 or not releasePlainHold(l.place, at, cost) then
        return false
      end
      finals[l.place] = final
    end
    if l.letter == 'b' and levels[i] + finals[l.place] * l.micros > maxPlain then
      return false
    end
  end
  return true
end

-- settlePlain settles the request whose keys begin at KEYS[first], unless its state is not plain, and reports whether it did.
-- Buckets are stored before holds: a key that has been removed cannot be written in a slot that is migrating.
local function settlePlain(plan, first, now, numbers, start)
  if not openPairs(plan, first, now) or not releaseAll(plan, numbers, start) then
    return false
  end
  for i = 1, #plan do
    local l = plan[i]
    if l.letter == 'b' and finals[l.place] > 0 then
      chargeBucket(i, l, KEYS[first + l.place - 1], now, finals[l.place] * l.micros)
    end
  end
  for place = 1, plan.keys do
    storeHolds(place, KEYS[first + place - 1], now)
    filled = filled + 1
    reply[filled] = 0
  end
  return true
end
