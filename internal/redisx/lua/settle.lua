-- Settles a request: replaces what its claims were charged or held, keeps holds, or bans.
--
-- A claim to be settled has five words, which follow the words of all claims:
--
--   at      when it was charged, held or last renewed, in microseconds since 1970; 0 if it is not known
--   cost    what it was charged or held
--   final   its final cost
--   ban     microseconds for which nothing is to fit or, if flags is 8, for which the request waited; else 0
--   flags   1 if cost was held + 2 to keep the hold + 4 to grant cost - final requests + 8 if the claim could wait for its turn
--
-- The reply has a word for each claim: the instant from which its hold counts after a renewal, else 0. If the first
-- claim has a cost, the reply is instead that of a Take that charges nothing.

-- fits reports whether the limits of a claim admit a cost. It names no rate.
local function fits(plan, claim, cost, now)
  for i = claim.first, claim.last do
    local l = plan[i]
    local w, o = l.w, l.o
    if l.period then
      w, o = copyRecord(w, o)
    end
    if l.kind > 0 then
      l.load(w, o, l, now)
      if withHolds(w, o, l, cost, l.wait(w, o, l, now, cost), now) ~= 0 then
        return false
      end
    end
  end
  return claim.pair.bannedUntil <= now
end

-- adjust charges more for a claim, or gives back what was charged at an instant for a request that had its turn after a wait.
local function adjust(plan, claim, at, more, now, wait)
  if more < 0 then
    refund(plan, claim, at, -more, now, wait)
  elseif not claim.dryRun or fits(plan, claim, more, now) then
    charge(plan, claim, more, now)
  end
end

-- settleHeld replaces what a claim held. If the hold has ended, its cost was charged at its end.
local function settleHeld(plan, claim, at, cost, final, now)
  local ended = at - at % holdWidth + holdLife
  if not releaseHold(claim.pair, at, cost) and at > 0 and ended <= now then
    return adjust(plan, claim, ended, final - cost, now)
  end
  if claim.dryRun and final > cost and not fits(plan, claim, final, now) then
    final = cost
  end
  charge(plan, claim, final, now)
end

-- renew makes what a claim held a hold of now, unless it has ended. It returns when the claim is held from now on, or 0.
local function renew(claim, at, cost, now)
  local pair = claim.pair
  local longestBan = pair.holdAt > 0 and pair.words[pair.holdAt + 2]
  local held = releaseHold(pair, at, cost)
  if not held then
    return 0
  end
  addHold(pair, now, held, 1)
  pair.words[pair.holdAt + 2] = longestBan
  return now
end

-- setBan denies everything of a pair until an instant. A longer ban stays.
local function setBan(pair, ends)
  if pair.banAt == 0 then
    pair.banAt = addRecord(pair, banKind, 0)
  end
  local o = pair.banAt
  local w = pair.words
  w[o + 1] = max(w[o + 1], min(ends, maxExact))
  pair.bannedUntil, pair.last, pair.dirty = w[o + 1], max(pair.last, w[o + 1]), true
end

-- grant gives the limits of a claim n more requests, or fewer if n is negative.
local function grant(plan, claim, n, now)
  for i = claim.first, claim.last do
    local l = plan[i]
    if l.rate > 0 then
      l.algorithm.grant(l.w, l.o, l, now, n)
    end
  end
  claim.pair.dirty = true
end

-- settle settles a request.
local function settle(plan, keyList, first, now, filled, numbers)
  openRequest(plan, keyList, first, now)
  for n, claim in ipairs(plan.claims) do
    local at, cost, final, ban, flags = unpackWords(formats[5], numbers, plan.behind + settleWords * word * (n - 1))
    local moved = 0
    if flags == 8 then
      adjust(plan, claim, at, final - cost, now, ban)
    elseif flags >= 4 then
      grant(plan, claim, cost - final, now)
    elseif flags >= 2 then
      moved = renew(claim, at, cost, now)
    elseif ban > 0 then
      setBan(claim.pair, now + ban)
    elseif flags == 1 then
      settleHeld(plan, claim, at, cost, final, now)
    else
      adjust(plan, claim, at, final - cost, now)
    end
    out[filled + n] = moved
  end
  if plan[1].asked > 0 then
    local _, isHeld = decide(plan, plan, now, false)
    saveRequest(plan, now)
    return report(plan, now, isHeld, filled)
  end
  saveRequest(plan, now)
  return filled + #plan.claims
end

-- resetPair forgets what a pair was charged, but not what it holds. The pair remembers its reset for as long as it
-- would have been kept, so that what was charged before is not given back out of what was charged since.
local function resetPair(plan, keyList, first, now, filled)
  openRequest(plan, keyList, first, now)
  local pair = plan.pairs[1]
  if pair.words[1] > layout then
    local w, kept, n = pair.words, {pair.words[1], resetKind, now}, 3
    local function keep(first, last)
      for i = first, last do
        n, kept[n + 1] = n + 1, w[i]
      end
    end
    local o = pair.holdAt
    if o > 0 then
      keep(o, lastCell(w, o) + cellSize - 1)
      eachLimit(pair, function(_, at, l)
        if isHeld(w, at) then
          l.algorithm.forget(w, at, l)
          w[at] = w[at] + heldMark
          keep(at, at + l.algorithm.size - 1)
        end
      end)
    end
    pair.words, pair.size, pair.holdAt, pair.banAt, pair.resetAt, anyRare = kept, n, o > 0 and 4 or 0, 0, 2, true
    for _, field in ipairs(call('HKEYS', pair.key)) do
      if field ~= 's' then
        call('HDEL', pair.key, field)
      end
    end
    pair.last, pair.dirty = 0, true
    saveRequest(plan, now)
  end
  out[filled + 1] = 0
  return filled + 1
end

decisions.s, decisions.r = settle, resetPair
