-- Charges requests ahead for a process that leases a pair, and gives back those that it has not used.
-- Uses floorDiv, max, min (number), unpackWords, word (word), filled, reply (reply), leaseWords (limit), advance, charge,
-- decideAsks, heldFor, openRequest, report, savePairs (decide), refundAll (refund).
--
-- A leased claim has five words:
--
--   want      how many requests to charge ahead
--   at, back  how many requests to give back, and when they were charged, in microseconds since 1970
--   at, back  likewise

-- leasesOf returns the leased claims of asks, whose numbers begin at a byte of a text.
local function leasesOf(asks, numbers, start)
  local claims = {}
  for i, ask in ipairs(asks) do
    if ask.limit.leased and ask.limit.begins then
      local want, at1, back1, at2, back2 = unpackWords('<I8I8I8I8I8', numbers, start + leaseWords * word * #claims)
      claims[#claims + 1] = {first = i, pair = ask.pair, want = want, backs = {{at = at1, cost = back1}, {at = at2, cost = back2}}}
    end
    if ask.limit.leased then
      claims[#claims].last = i
    end
  end
  return claims
end

-- giveBack refunds what a claim was charged ahead and has not used.
local function giveBack(asks, claim, now)
  for _, back in ipairs(claim.backs) do
    if back.cost > 0 then
      refundAll(asks, claim, back.at, back.cost, now)
    end
  end
end

-- chargeAhead charges what a claim wants, at most half of what remains, and returns it.
local function chargeAhead(asks, claim, now)
  local ahead = claim.want
  for i = claim.first, claim.last do
    local ask = asks[i]
    advance(ask, now)
    local remaining = ask.algorithm.report(ask.state, ask.limit, now)
    ahead = min(ahead, floorDiv(max(0, remaining - heldFor(ask)), 2))
  end
  for i = claim.first, ahead > 0 and claim.last or 0 do
    local ask = asks[i]
    charge(ask, ahead, now)
    if ask.algorithm.watch then
      ask.algorithm.watch(ask.state, now)
    end
  end
  return ahead
end

-- decideLeased decides the request whose keys begin at KEYS[first], some of whose claims are leased. After what it reports, it
-- replies how much it has charged ahead for each of those.
local function decideLeased(plan, first, now, numbers, start)
  local asks, pairsOf = openRequest(plan, first, now)
  local claims, ahead = leasesOf(asks, numbers, start), {}
  for _, claim in ipairs(claims) do
    giveBack(asks, claim, now)
  end
  local admitted, held = decideAsks(asks, now)
  for i, claim in ipairs(claims) do
    ahead[i] = admitted and chargeAhead(asks, claim, now) or 0
  end
  savePairs(pairsOf, now)
  report(asks, now, held)
  for i = 1, #ahead do
    reply[filled + i] = ahead[i]
  end
  filled = filled + #ahead
end
