-- Settles requests: replaces what they were charged, or held, by what they cost after all, renews holds, bans.
-- Uses max (number), unpackWords, word (word), clock, filled, logError, repaired, reply (reply), newPlan (limit), addHold,
-- releaseHold (hold), savePair (pair), advance, charge, decide, newAsks, open, report, rewind, waitFor (decide), refundAll
-- (refund).
--
-- KEYS: those of each request, one request after the other.
-- ARGV: the shift of the clock, then plans, each with the number of requests that have it and five words for each of their claims:
--
--   at      when it was charged, held or last renewed, in microseconds since 1970; 0 if it is not known
--   cost    what it was charged or held
--   final   what it costs after all
--   ban     microseconds for which nothing is to fit; else 0
--   flags   1 if cost was held + 2 to keep the hold
--
-- Returns the instant, how many states were repaired, and for each request what take.lua returns for one that is not plain, if it
-- asks for something; else for each claim when it is held from now on, or 0.
local now, first = clock(), 1

-- fits reports whether the limits of a claim admit a cost.
local function fits(asks, claim, cost)
  for i = claim.first, claim.last do
    local ask = asks[i]
    advance(ask, now)
    if ask.limit.letter ~= 'f' and (cost > ask.limit.capacity or waitFor(ask, cost, now) > 0) then
      return false
    end
  end
  return claim.pair.ban <= now
end

local function chargeAll(asks, claim, cost)
  for i = claim.first, claim.last do
    charge(asks[i], cost, now)
  end
end

-- settleHeld replaces what a claim held.
local function settleHeld(asks, claim)
  local final = claim.final
  releaseHold(claim.pair.holds, claim.at, claim.cost)
  if claim.dryRun and final > claim.cost and not fits(asks, claim, final) then
    final = claim.cost
  end
  if final > 0 then
    chargeAll(asks, claim, final)
  end
end

-- settleCharged replaces what a claim was charged.
local function settleCharged(asks, claim)
  local more = claim.final - claim.cost
  if more < 0 then
    refundAll(asks, claim, claim.at, -more, now)
  elseif more > 0 and not (claim.dryRun and not fits(asks, claim, more)) then
    chargeAll(asks, claim, more)
  end
end

-- settleClaim returns when the claim is held from now on, or 0.
local function settleClaim(asks, claim)
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
    settleHeld(asks, claim)
  else
    settleCharged(asks, claim)
  end
  return 0
end

-- claimsOf returns the claims of asks, whose numbers begin at a byte of a text.
local function claimsOf(asks, numbers, start)
  local claims = {}
  for i, ask in ipairs(asks) do
    if ask.limit.begins then
      local at, cost, final, ban, flags = unpackWords('<I8I8I8I8I8', numbers, start + 5 * word * #claims)
      claims[#claims + 1] = {
        first = i, pair = ask.pair, dryRun = ask.limit.dryRun, at = at, cost = cost, final = final, ban = ban, flags = flags,
      }
    end
    claims[#claims].last = i
  end
  return claims
end

-- reportAll decides what the plan asks as things are now, and reports that.
local function reportAll(asks)
  local held = false
  for _, ask in ipairs(asks) do
    open(ask, now)
    held = decide(ask, now) or held
  end
  report(asks, now, held)
end

local function settleRequest(plan, numbers, start)
  local asks, pairsOf = newAsks(plan, first, now)
  local claims = claimsOf(asks, numbers, start)
  for _, ask in ipairs(asks) do
    rewind(ask, now)
  end
  local moved = {}
  for i, claim in ipairs(claims) do
    moved[i] = settleClaim(asks, claim)
  end
  if plan[1].asked > 0 then
    reportAll(asks)
  end
  for place = 1, plan.keys do
    savePair(pairsOf[place], now)
  end
  for i = 1, plan[1].asked == 0 and #moved or 0 do
    filled = filled + 1
    reply[filled] = moved[i]
  end
end

for i = 2, #ARGV, 3 do
  local plan, start = newPlan(ARGV[i]), 1
  for _ = 1, tonumber(ARGV[i + 1]) do
    local before = filled
    local ok, result = pcall(settleRequest, plan, ARGV[i + 2], start)
    if not ok and #KEYS == plan.keys then
      error(result, 0)
    elseif not ok then
      logError(result)
      filled = before + 1
      reply[filled] = -2
    end
    start = start + 5 * word * plan.claims
    first = first + plan.keys
  end
end
reply[2] = repaired
return reply
