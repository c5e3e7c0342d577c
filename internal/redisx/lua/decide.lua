-- Decides a request: all or nothing.
--
-- The reply has the numbers of each limit: the wait, which is 0 if the limit admits the request, -1 if it never does and
-- -1 - n if the request waits n microseconds for its turn; and the results of report, from which reply.go computes what
-- remains. An algorithm's replied says how many numbers these are. If the request is rare, a code comes first, and three
-- more numbers for each limit follow: the cost that the pair holds, for how long the pair is banned, which may be
-- negative, and the rate at which a bucket drains, or what another limit is granted.
--
-- A code is a multiple of -maxExact, which no wait reaches.
local failed, farOff, rare, held = -maxExact, -2 * maxExact, -3 * maxExact, -4 * maxExact
local copy = {} -- of the record of a bucket that must not change
local out = {} -- the numbers that are replied

-- copyRecord returns a copy of a bucket's record, without its lows, and its place. It lasts until the next copy.
local function copyRecord(w, o)
  local copy = copy
  copy[1], copy[2], copy[3], copy[4], copy[5], copy[6] = unpack(w, o, o + bucketSize - 1)
  return copy, 1
end

-- withHolds returns how long a limit takes to admit a cost in view of what the pair holds and its ban, if it takes wait
-- without, and whether only what is held is in the way.
local function withHolds(w, o, l, cost, wait, now)
  local pair = l.pair
  local held = l.kind == 0 and pair.heldCount or pair.heldCost
  local isHeld = wait == 0 and held > 0 and l.wait(w, o, l, now, cost + held) ~= 0
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
-- for what others hold, since nobody knows when they end: bookTurn also returns whether that is in the way.
local function bookTurn(w, o, l, wait, now)
  if anyRare and l.pair.heldCost > 0 then
    return wait, true
  elseif wait > l.claim.maxWait then
    return wait - l.claim.maxWait
  end
  return l.algorithm.canBook(w, o, l, now, l.asked) and -1 - wait or wait
end

-- nameRates records the rates of the limits in states that know a rate, even if nothing is charged.
local function nameRates(plan, now)
  for i = 1, #plan do
    local l = plan[i]
    if l.algorithm.nameRate and l.algorithm.nameRate(l.w, l.o, l, now) then
      l.pair.dirty = true
    end
  end
end

-- charge charges cost to the limits of a claim, even if it does not fit.
local function charge(plan, claim, cost, now)
  if cost == 0 then
    return
  end
  for i = claim.first, claim.last do
    local l = plan[i]
    if anyRare then
      l.load(l.w, l.o, l, now)
    end
    local ends = l.charge(l.w, l.o, l, now, cost)
    if ends > l.pair.last then
      l.pair.last = ends
    end
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
    if claim.maxWait > 0 and anyRare and pair.bannedUntil > max(at + wait, now) then
      -- others may wait for the end of the ban, which the level does not show
    elseif claim.maxWait > 0 and l.capacity > 0 then
      l.algorithm.refundTurn(l.w, l.o, l, now, at, at + wait, cost)
    elseif l.capacity > 0 then
      l.algorithm.refund(l.w, l.o, l, now, at, cost)
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

-- beginCharge loads a limit that is to be charged, or makes its hold, and reports whether to charge it. A peek charges
-- nothing, nor does a dry run that does not fit.
local function beginCharge(plan, l, now)
  if l.peek or l.dryRun and not fitsAll(plan, l.claim) then
    return false
  elseif not l.hold then
    l.load(l.w, l.o, l, now)
    return true
  end
  if l.begins then
    addHold(l.pair, now, l.claim.cost, 1)
  end
  markHeld(l, now)
  return false
end

-- decide sets the waits of limits. If admitted is set and all of them but dry runs admit what they are asked, decide
-- charges or holds that. It reports whether it did, and whether holds are in the way of a limit.
local function decide(plan, limits, now, admitted)
  local isHeld = false
  for i = 1, #limits do
    local l = limits[i]
    local w, o, wait = l.w, l.o, 0
    if anyRare and l.period then
      w, o = copyRecord(w, o)
      l.load(w, o, l, now)
    elseif l.load(w, o, l, now) then
      l.pair.dirty = true
    end
    if anyRare or w[o + 1] > l.room then
      local byHolds = false
      wait = l.wait(w, o, l, now, l.asked)
      if anyRare then
        wait, byHolds = withHolds(w, o, l, l.asked, wait, now)
      end
      if wait > 0 and l.claim.maxWait > 0 then
        wait, byHolds = bookTurn(w, o, l, wait, now)
      end
      if wait ~= 0 and wait >= -1 then
        admitted, isHeld = admitted and l.dryRun, isHeld or byHolds
      end
    end
    l.waits = wait
  end
  for i = 1, admitted and #limits or 0 do
    local l = limits[i]
    if not anyRare or beginCharge(plan, l, now) then
      local charge, pair = l.waits < 0 and l.algorithm.book or l.charge, l.pair
      local ends = charge(l.w, l.o, l, now, l.claim.cost)
      if ends > pair.last then
        pair.last = ends
      end
      pair.dirty = true
    end
  end
  return admitted, isHeld
end

-- report writes the reply behind the first n numbers of out, and returns how many there are then.
local function report(plan, now, isHeld, n)
  local out = out
  if anyRare then
    n = n + 1
    out[n] = isHeld and held or rare
  end
  for i = 1, plan.count do
    local l = plan[i]
    local w, o = l.w, l.o
    if anyRare then
      if l.period then
        w, o = copyRecord(w, o)
      end
      l.load(w, o, l, now)
      l.more = l.period and w[o + 4] or grantOf(w, o, l.size)
    end
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = l.waits, l.report(w, o, l, now)
    n = n + l.replied
  end
  if anyRare then
    for i = 1, plan.count do
      local l = plan[i]
      out[n + 1], out[n + 2], out[n + 3] = l.kind == 0 and l.pair.heldCount or l.pair.heldCost, l.pair.bannedUntil - now, l.more
      n = n + 3
    end
  end
  return n
end

-- openRequest reads the pairs of the request whose keys begin at keyList[first].
local function openRequest(plan, keyList, first, now)
  if anyRare then -- left by the previous request
    clearRare(current)
  end
  current, anyRare, anyOdd, hasTexts = plan, plan.rare, plan.odd, false
  for n = 1, plan.keys do
    local pair, key = plan.pairs[n], keyList[first + n - 1]
    local value = tryCall('HGET', key, 's')
    pair.key, pair.dirty, pair.last = key, false, 0
    if value then
      parsePair(pair, value, now)
    else
      useNew(pair)
    end
  end
end

-- expire has the key of a pair that was stored expire at an instant in milliseconds since 1970. If the server denies that,
-- the pair does not say that its key is kept: a later request tries again.
local function expire(pair, at, now)
  local reply = tryCall('PEXPIRE', pair.key, format('%d', at - floorDiv(now, 1000)))
  if type(reply) == 'table' then
    pair.words[1] = 16 + layout
    call('HSET', pair.key, 's', textOf(pair.words, pair.size))
    error(reply.err, 0)
  end
end

-- saveRequest stores what has changed. An empty pair is not stored.
local function saveRequest(plan, now)
  for n = 1, plan.keys do
    local pair = plan.pairs[n]
    if pair.dirty then
      local w, key, last, prolong = pair.words, pair.key, pair.last, nil
      local size = pair.size
      if anyRare or last == 0 then
        last = endOf(pair)
      end
      if last * 0.016 > w[1] - 16 or w[1] * 62.5 < now then -- the layout is below 16
        prolong = ceilDiv(min(max(last, now), now + maxExact), 1000) + slack
        w[1] = prolong * 16 + layout
      end
      local command, value = hasTexts and saveTexts(pair), textOf(w, size)
      if size == 1 then
        call('DEL', key)
      elseif command then
        command[4] = value
        call(unpack(command))
      else
        call('HSET', key, 's', value)
      end
      if prolong and size > 1 then
        expire(pair, prolong, now)
      end
    end
  end
end
