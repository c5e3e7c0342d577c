-- Decides a request: all or nothing.
--
-- What it replies begins with a number: 1 if requests in flight are in the way of a limit + 2 if pairs hold something or are banned.
-- Then come four numbers for each limit: the wait, which is 0 if the limit admits what is asked, -1 if it never does and -1 - n if the
-- request waits n microseconds for its turn, and three that report returns, by which reply.go says what remains. With 2 come two more for
-- each limit: what is held, and for how long the pair is banned, which may be negative.
local copies = {} -- of the records of limits that must not change
local out = {} -- the numbers that are replied

-- copyRecord returns a copy of the record of limit i, without its lows, for a limit that must not change it.
local function copyRecord(i, w, o)
  local copy = (bucketSize + 1) * i
  for k = 0, bucketSize - 1 do
    copies[copy + k] = w[o + k]
  end
  copies[copy + bucketSize] = 0
  return copies, copy
end

-- withHolds returns how long a limit takes to admit a cost in view of what the pair holds and its ban, if it takes wait without, and
-- whether only what is held is in the way.
local function withHolds(w, o, l, cost, wait, now)
  local pair = l.pair
  local held = l.kind == 0 and pair.heldCount or pair.heldCost
  local isHeld = wait == 0 and held > 0 and (cost + held > l.capacity and (l.kind == 0 or l.algorithm == tokenBucket) or
    l.wait(w, o, l, now, cost + held) > 0) -- a grant lets others have more than their capacity
  if isHeld then
    wait = hint
  end
  local ban = pair.bannedUntil - now
  if ban > wait and wait >= 0 then
    wait = ban
  end
  return wait, isHeld
end

-- bookTurn returns the wait of a limit that does not admit a request now, if the request may wait for its turn: that is negative if the
-- turn comes soon enough, and else the time after which the same request would wait. No request waits for what others hold, since nobody
-- knows when they end.
local function bookTurn(w, o, l, wait, now)
  if anyRare and l.pair.heldCost > 0 then
    return wait
  elseif wait > l.maxWait then
    return wait - l.maxWait
  end
  return tokenBucket.canBook(w, o, l, now, anyRare and l.pair.bannedUntil - now or 0, l.asked) and -1 - wait or wait
end

-- nameRates has buckets remember the rates that they are asked at, even if nothing is charged.
local function nameRates(plan, now)
  for i = 1, #plan do
    local l = plan[i]
    if l.algorithm == tokenBucket and tokenBucket.nameRate(l.w, l.o, l, now) then
      l.pair.dirty = true
    end
  end
end

-- evaluate sets the waits of the dry runs or of the others. It reports whether all admit what they are asked, and whether holds are in the
-- way of one.
local function evaluate(plan, now, dryRun)
  local admitted, anyHeld = true, false
  for i = 1, plan.count do
    local l = plan[i]
    if l.dryRun == dryRun then
      local w, o, wait, isHeld = l.w, l.o, l.never, false
      if anyRare and l.period then
        w, o = copyRecord(i, w, o)
        l.load(w, o, l, now)
      elseif l.load(w, o, l, now) then
        l.pair.dirty = true
      end
      if not wait then
        wait = l.wait(w, o, l, now, l.asked)
        if anyRare then
          wait, isHeld = withHolds(w, o, l, l.asked, wait, now)
        end
        if l.maxWait and wait > 0 then
          wait = bookTurn(w, o, l, wait, now)
        end
      end
      l.waits = wait
      if wait ~= 0 and wait >= -1 then
        admitted, anyHeld = false, anyHeld or isHeld
      end
    end
  end
  return admitted, anyHeld
end

-- charge charges cost to the limits of a claim, even if it does not fit. Decided says that it was decided, so it may wait for its turn.
local function charge(plan, claim, cost, now, decided)
  for i = claim.first, claim.last do
    local l = plan[i]
    if anyRare then
      l.load(l.w, l.o, l, now)
    end
    if decided and l.waits < -1 then
      tokenBucket.book(l.w, l.o, l, now, anyRare and l.pair.bannedUntil - now or 0, cost)
    else
      l.charge(l.w, l.o, l, now, cost)
    end
  end
  claim.pair.dirty = true
end

-- refund gives back cost of a claim, which was charged at an instant for a request that had its turn after a wait. What was charged before
-- a reset is forgotten. No limit of the claim may have been loaded.
local function refund(plan, claim, at, cost, now, wait)
  local pair = claim.pair
  if anyRare and pair.resetAt > 0 and at < pair.words[pair.resetAt + 1] then
    return
  end
  for i = claim.first, claim.last do
    local l = plan[i]
    if l.maxWait and anyRare and pair.bannedUntil > max(at + wait, now) then
      -- others may wait for the end of the ban, which the level does not show
    elseif l.maxWait and l.capacity > 0 then
      tokenBucket.giveBack(l.w, l.o, l, now, at, at + wait, min(cost, l.capacity))
    elseif l.capacity > 0 then
      l.algorithm.refund(l.w, l.o, l, now, at, min(cost, l.capacity))
    end
  end
  pair.dirty = true
end

-- fitsAll reports whether all limits of a claim admit its cost.
local function fitsAll(plan, claim)
  for i = claim.first, claim.last do
    if plan[i].waits > 0 or plan[i].waits == -1 then
      return false
    end
  end
  return true
end

-- commit charges the claims of the dry runs or of the others, or holds their cost. Dry runs are committed if all their limits admit them,
-- the others if none of them all is denied.
local function commit(plan, now, dryRun)
  local claims = plan.claims
  for n = 1, #claims do
    local claim = claims[n]
    if claim.dryRun == dryRun and not claim.peek and (not dryRun or fitsAll(plan, claim)) then
      if claim.hold then
        addHold(claim.pair, now, claim.cost, 1)
        for i = claim.first, claim.last do
          markHeld(plan[i], now)
        end
      else
        charge(plan, claim, claim.cost, now, true)
      end
    end
  end
end

-- report adds what is replied to a request to the numbers that are filled, and returns how many there are.
local function report(plan, now, held, n)
  local out = out
  n = n + 1
  out[n] = held and 1 or 0
  if anyRare then
    out[n] = out[n] + 2
  end
  for i = 1, plan.count do
    local l = plan[i]
    local w, o = l.w, l.o
    if anyRare then
      if l.period then
        w, o = copyRecord(i, w, o)
      end
      l.load(w, o, l, now)
    end
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = l.waits, l.report(w, o, l, now)
    n = n + 4
  end
  if anyRare then
    for i = 1, plan.count do
      local l = plan[i]
      out[n + 1], out[n + 2], n = l.kind == 0 and l.pair.heldCount or l.pair.heldCost, l.pair.bannedUntil - now, n + 2
    end
  end
  return n
end

-- openRequest reads the pairs of the request whose keys begin at keyList[first].
local function openRequest(plan, keyList, first, now)
  if anyRare then -- of an earlier request
    clearRare(current)
  end
  current, anyRare, hasTexts = plan, plan.rare, false
  for n = 1, plan.keys do
    readPair(plan.pairs[n], keyList[first + n - 1], now)
  end
end

-- saveRequest stores what has changed.
local function saveRequest(plan, now)
  for n = 1, plan.keys do
    local pair = plan.pairs[n]
    if pair.dirty then
      savePair(pair, now)
    end
  end
end
