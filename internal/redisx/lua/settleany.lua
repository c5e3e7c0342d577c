-- Settles a request of any limits: see jobs.lua.
-- Uses max (number), unpackWords, word (word), filled, reply (reply), settleWords (limit), addHold, releaseHold (hold),
-- savePair (pair), advance, charge, decide, newAsks, report, rewind, waitFor (decide), refundAll (refund).

-- fits reports whether the limits of a claim admit a cost.
local function fits(asks, claim, cost, now)
  for i = claim.first, claim.last do
    local ask = asks[i]
    advance(ask, now)
    if ask.limit.letter ~= 'f' and (cost > ask.limit.capacity or waitFor(ask, cost, now) > 0) then
      return false
    end
  end
  return claim.pair.ban <= now
end

local function chargeAll(asks, claim, cost, now)
  for i = claim.first, claim.last do
    charge(asks[i], cost, now)
  end
end

-- settleHeld replaces what a claim held.
local function settleHeld(asks, claim, now)
  local final = claim.final
  releaseHold(claim.pair.holds, claim.at, claim.cost)
  if claim.dryRun and final > claim.cost and not fits(asks, claim, final, now) then
    final = claim.cost
  end
  if final > 0 then
    chargeAll(asks, claim, final, now)
  end
end

-- settleCharged replaces what a claim was charged.
local function settleCharged(asks, claim, now)
  local more = claim.final - claim.cost
  if more < 0 then
    refundAll(asks, claim, claim.at, -more, now)
  elseif more > 0 and not (claim.dryRun and not fits(asks, claim, more, now)) then
    chargeAll(asks, claim, more, now)
  end
end

-- settleClaim returns when the claim is held from now on, or 0.
local function settleClaim(asks, claim, now)
  local pair = claim.pair
  if claim.flags >= 2 then
    local held, count = releaseHold(pair.holds, claim.at, claim.cost)
    if count > 0 then
      addHold(pair.holds, now, held, count)
      return now
    end
  elseif claim.ban > 0 then
    pair.ban, pair.banned = max(pair.ban, now + claim.ban), true
  elseif claim.flags == 1 then
    settleHeld(asks, claim, now)
  else
    settleCharged(asks, claim, now)
  end
  return 0
end

-- claimsOf returns the claims of asks, whose numbers begin at a byte of a text.
local function claimsOf(asks, numbers, start)
  local claims = {}
  for i, ask in ipairs(asks) do
    if ask.limit.begins then
      local at, cost, final, ban, flags = unpackWords('<I8I8I8I8I8', numbers, start + settleWords * word * #claims)
      claims[#claims + 1] = {
        first = i, pair = ask.pair, dryRun = ask.limit.dryRun, at = at, cost = cost, final = final, ban = ban, flags = flags,
      }
    end
    claims[#claims].last = i
  end
  return claims
end

-- reportAll decides what the plan asks as things are now, and reports that.
local function reportAll(asks, now)
  local held = false
  for _, ask in ipairs(asks) do
    held = decide(ask, now) or held
  end
  report(asks, now, held)
end

-- settleRequest settles the request whose keys begin at KEYS[first].
local function settleRequest(plan, first, now, numbers, start)
  local asks, pairsOf = newAsks(plan, first, now)
  local claims = claimsOf(asks, numbers, start)
  for _, ask in ipairs(asks) do
    rewind(ask, now)
  end
  local moved = {}
  for i, claim in ipairs(claims) do
    moved[i] = settleClaim(asks, claim, now)
  end
  if plan[1].asked > 0 then
    reportAll(asks, now)
  end
  for place = 1, plan.keys do
    savePair(pairsOf[place], now)
  end
  for i = 1, plan[1].asked == 0 and #moved or 0 do
    filled = filled + 1
    reply[filled] = moved[i]
  end
end
