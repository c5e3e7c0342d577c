-- Decides plain requests with leased claims, as most grants are. The results equal those of lease.lua.
-- Uses floorDiv, max, min (number), unpackWords, word (word), call, filled, reply (reply), leaseWords (limit), chargeBucket,
-- instants, isDenied, levels, busys, openPairs (plain), addLow, boundLows, lowOf, readLows, returnedLows, writeLows (lows).
local lowsOf = {} -- of the buckets of the request being decided, by limit

-- refundBucket subtracts from the level of an open bucket what a charge of cost made at an instant is certain to still count for.
local function refundBucket(i, l, at, cost, now)
  local charged, lows = min(cost, l.capacity) * l.micros, lowsOf[i]
  local sure = charged
  if at < instants[i] then
    sure = max(0, charged - max(0, now - at) * l.rate)
    if at >= busys[i] then
      sure = max(sure, min(charged, l.micros))
    end
    sure = max(sure, min(charged, lows[lowOf(lows, at)] or 0))
    lowsOf[i] = returnedLows(lows, at, sure)
    if sure > 0 then
      busys[i] = instants[i]
    end
  end
  levels[i] = max(0, levels[i] - sure)
end

-- openLeased does what openPairs does, and sets lowsOf.
local function openLeased(plan, first, now)
  local texts = {}
  if not openPairs(plan, first, now, texts) then
    return false
  end
  for i = 1, #plan do
    lowsOf[i] = readLows(texts[i], 1)
    if not lowsOf[i] then
      return false
    end
  end
  return true
end

-- chargeLeased charges bucket i with cost, and with ahead besides.
local function chargeLeased(i, l, key, now, ahead)
  local lows, charge = boundLows(lowsOf[i], levels[i]), l.charge + ahead * l.micros
  if ahead > 0 then
    lows = addLow(lows, now, levels[i] + charge)
  end
  return chargeBucket(i, l, key, now, charge, writeLows(lows))
end

-- wasReset reports whether the pair of a key was reset after an instant.
local function wasReset(key, at)
  local value = call('HGET', key, 'reset')
  return value and #value == 2 * word and unpackWords('<I8', value, word + 1) > at
end

-- aheadOf returns how much to charge ahead for the claim with limits i to last: what it wants, at most half of what remains.
local function aheadOf(plan, i, last, want)
  local ahead = want
  for n = i, last do
    local l = plan[n]
    ahead = min(ahead, floorDiv(floorDiv(max(0, l.target - levels[n]), l.micros), 2))
  end
  return ahead
end

-- openLeases refunds what the leased claims of a request give back. It returns these claims with what they want, and whether
-- anything was refunded.
local function openLeases(plan, first, now, numbers, start)
  local claims, returned = {}, false
  for i, l in ipairs(plan) do
    if l.leased and l.begins then
      local want, at1, back1, at2, back2 = unpackWords('<I8I8I8I8I8', numbers, start + leaseWords * word * #claims)
      claims[#claims + 1] = {first = i, want = want, backs = {{at1, back1}, {at2, back2}}}
    end
    if l.leased then
      claims[#claims].last = i
    end
  end
  for _, claim in ipairs(claims) do
    for _, back in ipairs(claim.backs) do
      if back[2] > 0 and not wasReset(KEYS[first + plan[claim.first].place - 1], back[1]) then
        returned = true
        for n = claim.first, claim.last do
          refundBucket(n, plan[n], back[1], back[2], now)
        end
      end
    end
  end
  return claims, returned
end

-- replyDenied replies the levels of a denied request, and that nothing was charged ahead.
local function replyDenied(plan, claims)
  for n = 1, #plan do
    reply[filled + n] = -4 - levels[n]
  end
  for i = 1, #claims do
    reply[filled + #plan + i] = 0
  end
  filled = filled + #plan + #claims
end

-- decidePlainLeased decides the request whose keys begin at KEYS[first], unless its state is not plain, and reports whether it did.
-- It replies what decidePlain does, and then what was charged ahead for each leased claim. A denied request that gives back is
-- left to decideLeased, which stores what it gave back.
local function decidePlainLeased(plan, first, now, numbers, start)
  if not openLeased(plan, first, now) then
    return false
  end
  local claims, returned = openLeases(plan, first, now, numbers, start)
  if isDenied(plan) then
    if not returned then
      replyDenied(plan, claims)
    end
    return not returned
  end
  local aheads = {}
  for i, claim in ipairs(claims) do
    local ahead = aheadOf(plan, claim.first, claim.last, claim.want)
    reply[filled + #plan + i] = ahead
    for n = claim.first, claim.last do
      aheads[n] = ahead
    end
  end
  for n, l in ipairs(plan) do
    reply[filled + n] = chargeLeased(n, l, KEYS[first + l.place - 1], now, aheads[n] or 0)
  end
  filled = filled + #plan + #claims
  return true
end
