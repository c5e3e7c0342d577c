-- Decides a Take.
--
-- Its leased claims charge requests ahead for a process, and return those that it has not used. Each has five words, which follow
-- the words of all claims:
--
--   want        how many requests to charge ahead
--   at, unused  when requests were charged, in microseconds since 1970, and how many of them to return
--   at, unused  likewise
--
-- After what decide.lua replies come the numbers of requests charged ahead.

-- openLeases reads what the leased claims want, and returns what they were charged ahead and have not used.
local function openLeases(plan, now, numbers)
  for n, claim in ipairs(plan.leases) do
    local at1, unused1, at2, unused2
    claim.want, at1, unused1, at2, unused2 = unpackWords(formats[5], numbers, plan.behind + leaseWords * word * (n - 1))
    if unused1 > 0 then
      refund(plan, claim, at1, unused1, now)
    end
    if unused2 > 0 then
      refund(plan, claim, at2, unused2, now)
    end
  end
end

-- chargeAhead charges what the leased claims want, at most half of what remains.
local function chargeAhead(plan, now, admitted)
  for _, claim in ipairs(plan.leases) do
    local ahead = admitted and claim.want or 0
    for i = claim.first, claim.last do
      local l = plan[i]
      local remaining = l.algorithm.remaining(l.w, l.o, l, now)
      ahead = min(ahead, floorDiv(max(0, remaining - (anyRare and l.pair.heldCost or 0)), 2))
    end
    if ahead > 0 then
      charge(plan, claim, ahead, now)
      for i = claim.first, claim.last do
        if plan[i].algorithm.watch then
          plan[i].algorithm.watch(plan[i].w, plan[i].o, now)
        end
      end
    end
    claim.ahead = ahead
  end
end

-- take decides a request, and charges requests ahead for its leased claims.
local function take(plan, keyList, first, now, filled, numbers)
  openRequest(plan, keyList, first, now)
  if plan.leased then
    openLeases(plan, now, numbers)
  end
  if anyOdd then -- each names its rate before one is evaluated
    nameRates(plan, now)
  end
  local admitted, isHeld = decide(plan, plan.live, now, true)
  if plan.dry then
    decide(plan, plan.dry, now, admitted)
  end
  if plan.leased then
    chargeAhead(plan, now, admitted)
  end
  saveRequest(plan, now)
  filled = report(plan, now, isHeld, filled)
  if plan.leased then
    for _, claim in ipairs(plan.leases) do
      filled = filled + 1
      out[filled] = claim.ahead
    end
  end
  return filled
end

decisions.t, decisions.p = take, take
