-- Decides a request: all or nothing.
--
-- What it replies begins with 0, or 1 if requests in flight are in the way of a limit. Then come four numbers for each limit: the wait, which
-- is 0 if the limit admits what is asked and -1 if it never does, what remains, and the waits for one more and for all.
local waits = {} -- of each limit
local copies = {} -- of the records of limits that must not change
local reply, filled = {}, 0

-- copyRecord returns a copy of the record of limit i, without its lows, for a limit that must not change it.
local function copyRecord(i, w, o)
  local copy = (bucketSize + 1) * i
  for k = 0, bucketSize - 1 do
    copies[copy + k] = w[o + k]
  end
  copies[copy + bucketSize] = 0
  return copies, copy
end

-- isCopied reports whether limit l is evaluated on a copy of its record, because the pair may be stored though nothing is charged.
local function isCopied(l)
  return l.copied or anyRare and l.algorithm == tokenBucket
end

-- withHolds returns how long a limit takes to admit a cost in view of what the pair holds and its ban, if it takes wait without, and
-- whether only what is held is in the way.
local function withHolds(w, o, l, cost, wait, now)
  local place, held = l.place, nil
  held = l.kind == 0 and heldCount[place] or heldCost[place]
  local isHeld = wait == 0 and held > 0 and (cost + held > l.capacity or l.wait(w, o, l, now, cost + held) > 0)
  if isHeld then
    wait = hint
  end
  local ban = bannedUntil[place] - now
  if ban > wait and wait >= 0 then
    wait = ban
  end
  return wait, isHeld
end

-- nameRates has buckets remember the rates that they are asked at, even if nothing is charged.
local function nameRates(plan, now)
  for i = 1, #plan do
    local l = plan[i]
    if l.algorithm == tokenBucket then
      dirty[l.place] = tokenBucket.nameRate(words[l.place], homes[i], l, now) or dirty[l.place]
    end
  end
end

-- evaluate sets the waits of the dry runs or of the others. It reports whether all admit what they are asked, and whether holds are in the
-- way of one.
local function evaluate(plan, now, dryRun)
  local admitted, anyHeld = true, false
  for i = 1, #plan do
    local l = plan[i]
    if l.dryRun == dryRun then
      local w, o, wait, isHeld = words[l.place], homes[i], -1, false
      local copied = isCopied(l)
      if copied then
        w, o = copyRecord(i, w, o)
      end
      if l.load(w, o, l, now) and not copied then
        dirty[l.place] = true
      end
      if l.asked <= l.capacity then
        wait = l.wait(w, o, l, now, l.asked)
        if anyRare then
          wait, isHeld = withHolds(w, o, l, l.asked, wait, now)
        end
      end
      waits[i] = wait
      if wait ~= 0 then
        admitted, anyHeld = false, anyHeld or isHeld
      end
    end
  end
  return admitted, anyHeld
end

-- charge charges cost to the limits of a claim, even if it does not fit.
local function charge(plan, claim, cost, now)
  local w = words[claim.place]
  dirty[claim.place] = true
  for i = claim.first, claim.last do
    local l = plan[i]
    if l.rate > 0 then
      if plan.shared or plan.copies or anyRare then
        l.load(w, homes[i], l, now)
      end
      l.charge(w, homes[i], l, now, cost)
    end
  end
end

-- refund gives back cost of a claim, which was charged at an instant. What was charged before a reset is forgotten. No limit of the
-- claim may have been loaded.
local function refund(plan, claim, at, cost, now)
  local place = claim.place
  if anyRare and resetAt[place] > 0 and at < words[place][resetAt[place] + 1] then
    return
  end
  for i = claim.first, claim.last do
    local l = plan[i]
    if l.capacity > 0 then
      l.algorithm.refund(words[place], homes[i], l, now, at, min(cost, l.capacity))
    end
  end
  dirty[place] = true
end

-- fitsAll reports whether all limits of a claim admit its cost.
local function fitsAll(claim)
  for i = claim.first, claim.last do
    if waits[i] ~= 0 then
      return false
    end
  end
  return true
end

-- commit charges the claims of the dry runs or of the others, or holds their cost. Dry runs are committed if all their limits admit them,
-- the others if none of them all is denied.
local function commit(plan, now, dryRun)
  for n = 1, #plan.claims do
    local claim = plan.claims[n]
    if claim.dryRun == dryRun and not claim.peek and (not dryRun or fitsAll(claim)) then
      if claim.hold then
        addHold(claim.place, now, claim.cost, 1)
        for i = claim.first, claim.last do
          local l = plan[i]
          markHeld(words[l.place], homes[i], l, now)
        end
      else
        charge(plan, claim, claim.cost, now)
      end
    end
  end
end

-- report replies four numbers for each limit.
local function report(plan, now, held)
  filled = filled + 1
  reply[filled] = held and 1 or 0
  for i = 1, #plan do
    local l = plan[i]
    local w, o = words[l.place], homes[i]
    local copied = isCopied(l)
    if copied then
      w, o = copyRecord(i, w, o)
    end
    if plan.shared or copied then
      l.load(w, o, l, now)
    end
    local remaining, refill, reset = l.report(w, o, l, now)
    if anyRare then
      local held, ban = l.kind == 0 and heldCount[l.place] or heldCost[l.place], bannedUntil[l.place] - now
      if held > 0 or ban > 0 then
        local least = max(held > 0 and hint or 0, ban)
        remaining, refill, reset = ban > 0 and 0 or max(0, remaining - held), max(refill, least), max(reset, least)
      end
    end
    reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = waits[i], remaining, refill, reset
    filled = filled + 4
  end
end

-- openRequest reads the pairs of the request whose keys begin at keyList[first].
local function openRequest(plan, keyList, first, now)
  if anyRare then -- of an earlier request
    clearRare(1, current.keys)
    anyRare = false
  end
  current = plan
  for place = 1, plan.keys do
    if not others[place] then
      clearRare(place, place)
    end
    readPair(plan, place, keyList[first + place - 1], now)
  end
end

-- saveRequest stores what has changed.
local function saveRequest(plan, now)
  for place = 1, plan.keys do
    if dirty[place] then
      savePair(plan, place, now)
    end
  end
end
