-- Settles a request: replaces what its claims were charged or held, keeps holds, or bans.
--
-- A claim to be settled has five words:
--
--   at      when it was charged, held or last renewed, in microseconds since 1970; 0 if it is not known
--   cost    what it was charged or held
--   final   what it costs after all
--   ban     microseconds for which nothing is to fit; else 0
--   flags   1 if cost was held + 2 to keep the hold
--
-- What it replies is, for each claim, when it is held from now on, or 0. If the plan asks for a cost, it replies what a Take would that
-- charges nothing.

-- load brings the limits of a claim to now.
local function load(plan, claim, now)
  for i = claim.first, claim.last do
    local l = plan[i]
    l.load(words[claim.place], homes[i], l, now)
  end
end

-- fits reports whether the limits of a claim, which are loaded, admit a cost.
local function fits(plan, claim, cost, now)
  for i = claim.first, claim.last do
    local l, w, o = plan[i], words[claim.place], homes[i]
    local wait = l.kind > 0 and (cost > l.capacity and -1 or l.wait(w, o, l, now, cost)) or 0
    if l.kind > 0 and withHolds(w, o, l, cost, wait, now) ~= 0 then
      return false
    end
  end
  return bannedUntil[claim.place] <= now
end

-- adjust charges more for a claim, or gives back what was charged at an instant.
local function adjust(plan, claim, at, more, now)
  if more < 0 then
    refund(plan, claim, at, -more, now)
  elseif more > 0 then
    load(plan, claim, now)
    if not claim.dryRun or fits(plan, claim, more, now) then
      charge(plan, claim, more, now)
    end
  end
end

-- settleHeld replaces what a claim held. If the hold has ended, its cost was charged at its end.
local function settleHeld(plan, claim, at, cost, final, now)
  local ended = at - at % holdWidth + holdLife
  if not releaseHold(claim.place, at, cost) and ended <= now then
    return adjust(plan, claim, ended, final - cost, now)
  end
  load(plan, claim, now)
  if claim.dryRun and final > cost and not fits(plan, claim, final, now) then
    final = cost
  end
  if final > 0 then
    charge(plan, claim, final, now)
  end
end

-- renew makes what a claim held a hold of now, unless it has ended. It returns when the claim is held from now on, or 0.
local function renew(claim, at, cost, now)
  local held = releaseHold(claim.place, at, cost)
  if not held then
    return 0
  end
  addHold(claim.place, now, held, 1)
  return now
end

-- setBan denies everything of a pair until an instant. A longer ban stays.
local function setBan(place, ends)
  if banAt[place] == 0 then
    banAt[place] = addRecord(place, banKind, 0)
  end
  local o = banAt[place]
  local w = words[place]
  w[o + 1] = max(w[o + 1], min(ends, maxExact))
  bannedUntil[place], lasts[place], dirty[place] = w[o + 1], max(lasts[place], w[o + 1]), true
end

-- settle settles a request.
local function settle(plan, keyList, first, now, numbers, start)
  openRequest(plan, keyList, first, now)
  local moved = {}
  for n, claim in ipairs(plan.claims) do
    local at, cost, final, ban, flags = unpackWords('<I8I8I8I8I8', numbers, start + settleWords * word * (n - 1))
    moved[n] = 0
    if flags >= 2 then
      moved[n] = renew(claim, at, cost, now)
    elseif ban > 0 then
      setBan(claim.place, now + ban)
    elseif flags == 1 then
      settleHeld(plan, claim, at, cost, final, now)
    else
      adjust(plan, claim, at, final - cost, now)
    end
  end
  if plan[1].asked > 0 then
    local _, held = evaluate(plan, now, false)
    local _, dryHeld = evaluate(plan, now, true)
    saveRequest(plan, now)
    return report(plan, now, held or dryHeld)
  end
  saveRequest(plan, now)
  for n = 1, #moved do
    filled = filled + 1
    reply[filled] = moved[n]
  end
end

-- resetPair forgets what a pair was charged, but not what it holds. The pair remembers its reset for as long as it would have been kept,
-- so that what was charged before is not given back out of what was charged since.
local function resetPair(plan, keyList, first, now)
  openRequest(plan, keyList, first, now)
  local key = keyList[first]
  if stored[1] then
    local held = {}
    local w, o = words[1], holdAt[1]
    for i = o, o > 0 and lastCell(w, o) + 2 or o - 1 do
      held[#held + 1] = w[i]
    end
    words[1] = {w[1], resetKind, now, unpack(held)}
    sizes[1], holdAt[1], banAt[1], resetAt[1], anyRare = 3 + #held, #held > 0 and 4 or 0, 0, 2, true
    for _, field in ipairs(call('HKEYS', key)) do
      if field ~= 's' then
        call('HDEL', key, field)
      end
    end
    others[1], lasts[1] = 0, 0
    savePair(plan, 1, now)
  end
  filled = filled + 1
  reply[filled] = 0
end
