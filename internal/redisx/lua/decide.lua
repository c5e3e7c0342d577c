-- Decides a request: all or nothing.
--
-- The reply begins with a number: 1 if requests in flight are in the way of a limit + 2 if pairs hold something or are
-- banned. Four numbers for each limit follow: the wait, which is 0 if the limit admits the request, -1 if it never does
-- and -1 - n if the request waits n microseconds for its turn, and the three results of report, from which reply.go
-- computes what remains. If 2 was added, two more numbers for each limit follow: the cost that the pair holds, and for
-- how long the pair is banned, which may be negative.
local copy = {} -- of the record of a bucket that must not change
local out = {} -- the numbers that are replied

-- copyRecord returns a copy of a bucket's record, without its lows, and its place. It lasts until the next copy.
local function copyRecord(w, o)
  for k = 0, bucketSize - 1 do
    copy[k + 1] = w[o + k]
  end
  return copy, 1
end

-- withHolds returns how long a limit takes to admit a cost in view of what the pair holds and its ban, if it takes wait
-- without, and whether only what is held is in the way.
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

-- bookTurn returns the wait of a limit that does not admit a request now, if the request may wait for its turn: that is
-- negative if the turn comes soon enough, and else the time after which the same request would wait. No request waits
-- for what others hold, since nobody knows when they end.
local function bookTurn(w, o, l, wait, now)
  if anyRare and l.pair.heldCost > 0 then
    return wait
  elseif wait > l.maxWait then
    return wait - l.maxWait
  end
  return tokenBucket.canBook(w, o, l, now, l.asked) and -1 - wait or wait
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

-- evaluate sets the waits of limits. It reports whether all admit what they are asked, and whether holds are in the way of one.
local function evaluate(limits, now)
  local admitted, anyHeld = true, false
  for i = 1, #limits do
    local l = limits[i]
    local w, o, wait, isHeld = l.w, l.o, 0, false
    if anyRare and l.period then
      w, o = copyRecord(w, o)
      l.load(w, o, l, now)
    elseif l.load(w, o, l, now) then
      l.pair.dirty = true
    end
    if anyRare or w[o + 1] > l.room then
      wait = l.never or l.wait(w, o, l, now, l.asked)
      if anyRare then
        wait, isHeld = withHolds(w, o, l, l.asked, wait, now)
      end
      if l.maxWait and wait > 0 then
        wait = bookTurn(w, o, l, wait, now)
      end
      if wait ~= 0 and wait >= -1 then
        admitted, anyHeld = false, anyHeld or isHeld
      end
    end
    l.waits = wait
  end
  return admitted, anyHeld
end

-- charge charges cost to the limits of a claim, even if it does not fit.
local function charge(plan, claim, cost, now)
  for i = claim.first, claim.last do
    local l = plan[i]
    if anyRare then
      l.load(l.w, l.o, l, now)
    end
    l.charge(l.w, l.o, l, now, cost)
  end
  claim.pair.dirty = true
end

-- refund gives back cost of a claim, which was charged at an instant for a request that had its turn after a wait. What
-- was charged before a reset is forgotten. No limit of the claim may have been loaded.
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

-- isCharged reports whether a limit is to be charged, and loads it for that. A peek charges nothing, nor does a dry run
-- that does not fit. A claim that holds its cost is not charged either: isCharged makes the hold.
local function isCharged(plan, l, now)
  if l.peek or l.dryRun and not fitsAll(plan, l.claim) then
    return false
  elseif not l.hold then
    l.load(l.w, l.o, l, now)
    return true
  end
  if l.begins then
    addHold(l.pair, now, l.cost, 1)
  end
  markHeld(l, now)
  return false
end

-- commit charges what limits were asked, or holds it.
local function commit(plan, limits, now)
  for i = 1, #limits do
    local l = limits[i]
    if not anyRare or isCharged(plan, l, now) then
      local charge = l.waits < 0 and tokenBucket.book or l.charge
      charge(l.w, l.o, l, now, l.cost)
      l.pair.dirty = true
    end
  end
end

-- report adds what is replied to a request to the numbers that are filled, and returns how many there are.
local function report(plan, now, held, n)
  local out = out
  n = n + 1
  out[n] = (held and 1 or 0) + (anyRare and 2 or 0)
  for i = 1, plan.count do
    local l = plan[i]
    local w, o = l.w, l.o
    if anyRare then
      if l.period then
        w, o = copyRecord(w, o)
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
    local pair, key = plan.pairs[n], keyList[first + n - 1]
    local value = tryCall('HGET', key, 's')
    pair.key, pair.dirty, pair.stored = key, false, value
    if value then
      parsePair(pair, value, now)
    else
      useNew(pair)
    end
  end
end

-- saveRequest stores what has changed. An empty pair is not stored.
local function saveRequest(plan, now)
  for n = 1, plan.keys do
    local pair = plan.pairs[n]
    if pair.dirty then
      local w, key, last, prolong = pair.words, pair.key, anyRare and endOfRare(pair) or 0, nil
      for n = 1, #pair do
        local l = pair[n]
        local ends = l.ends(l.w, l.o, l)
        if ends > last then
          last = ends
        end
      end
      if last * 0.016 > w[1] or w[1] * 62.5 < now then
        prolong = ceilDiv(min(max(last, now), now + maxExact), 1000) + slack
        w[1] = prolong * 16 + layout
      end
      local command, value = hasTexts and saveTexts(pair), textOf(w, pair.size)
      if pair.size == 1 then
        call('DEL', key)
      elseif command then
        command[4] = value
        call(unpack(command))
      else
        call('HSET', key, 's', value)
      end
      if prolong then
        call('PEXPIRE', key, format('%d', prolong - floorDiv(now, 1000)))
      end
    end
  end
end
