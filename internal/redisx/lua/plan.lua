-- A plan: the shape of a request, without its keys, its costs and how long it may wait.
--
-- The library keeps plans that it has read. The text of a plan is a letter, t for a Take, p for a Take that charges nothing
-- whatever its claims say, s for a Settle or r for a reset, and six numbers for each limit of each claim. A claim without
-- limits, which is a ban, has six as well.
--
--   head      1 if a claim begins + 2 for a peek + 4 for a dry run + 8 if it holds + 16 if it is leased + 32 · place of its key
--             among the request's keys, from 1
--   kind      period in µs · 16 + 0 for a token bucket, 4 a fixed window, 8 a sliding window, 12 a sliding log; 0 for a
--             limit in flight
--   rate
--   capacity
--   unit      microseconds per tick of a token bucket, or per sub-bucket of a sliding window, else 0
--   ban       microseconds that a token bucket denies for once it is used up, else 0
--
-- For a calendar window, the kind is calendar · 16 + 4, the unit is how many starts of windows follow these numbers, in
-- ascending order, and the ban is the process's clock, as the microseconds since 1970 at which its minute began.
--
-- What differs between requests of one plan are words beside the keys. The first ones are two for each claim:
--
--   cost      of the claim
--   wait      for how many microseconds it may wait for its turn, or 0
--
-- take.lua and settle.lua say which words follow.
local claimWords, settleWords, leaseWords = 2, 5, 5 -- of each claim, and of each that is settled, or leased
local minute, day = 60000000, 86400000000
local maxPlans = 1000
local decisions = {} -- what a plan does, by its letter: take.lua and settle.lua add them

-- newLimit returns the limit of six numbers. op is the letter of the plan.
local function newLimit(op, head, kind, rate, capacity, unit, ban, starts)
  local flags, micros, algorithm = head % 32, floorDiv(kind, 16), kind > 0 and algorithms[kind % 16] or inFlight
  local l = {
    begins = flags % 2 == 1, alone = flags % 4 >= 2, dryRun = flags % 8 >= 4, hold = flags % 16 >= 8, leased = flags >= 16,
    place = (head - flags) / 32, algorithm = algorithm, kind = kind, name = format('%d', kind), micros = micros,
    rate = rate, capacity = capacity, unit = unit, ban = ban, starts = starts,
    load = algorithm.load, wait = algorithm.wait, charge = algorithm.charge, report = algorithm.report, ends = algorithm.ends,
    size = algorithm.size, replied = algorithm.replied, o = 0,
  }
  l.peek = l.alone or op == 'p'
  if rate == 0 then -- nothing is ever admitted
    l.charge = inFlight.charge
  end
  if algorithm.compile then
    algorithm.compile(l)
  end
  return l
end

-- newPair returns a pair without limits. Its kinds are the first limit of each kind by -kind: miniredis allocates all
-- up to a large number that is a positive index. Its new are the words of a pair that is not stored.
local function newPair()
  return {kinds = {}, new = {layout}}
end

-- addToPair adds a limit of a claim to its pair, and reports whether the pair has its kind already. If several claims are
-- charged to its state, the limit knows the others: no peeks, and dry runs separately, because they must not make others fail.
local function addToPair(pair, l, claim)
  local same = pair.kinds[-l.kind]
  l.claim = claim
  for _, other in ipairs(pair) do
    if other.kind == l.kind and other.dryRun == l.dryRun and not other.alone and not l.alone then
      l.beside, other.beside = l.beside or {}, other.beside or {}
      table.insert(l.beside, other.claim)
      table.insert(other.beside, claim)
    end
  end
  table.insert(pair, l)
  l.pair, l.first, l.same = pair, same and same.first or 0, same
  if l.kind > 0 and not same then
    pair.kinds[-l.kind], pair.kinds[-l.kind - heldMark] = l, l
    l.first = #pair.new + 1
    l.algorithm.empty(pair.new, l.first, l)
  end
  return same
end

-- newPlan reads a plan. Besides its limits it has its pairs, and the claims with their first and last limits.
local function newPlan(text)
  local op = sub(text, 1, 1)
  local plan = {op = op, decide = decisions[op], rare = op ~= 't', live = {}, claims = {}, leases = {}, pairs = {}}
  local numbers = {}
  for n in string.gmatch(text, '%d+') do
    numbers[#numbers + 1] = tonumber(n)
  end
  local first, claim = 1, nil
  while first <= #numbers do
    local head, kind, rate, capacity, unit, ban = unpack(numbers, first, first + 5)
    first = first + 6
    local starts
    if kind >= firstCalendar then
      starts = {unpack(numbers, first, first + unit - 1)}
      plan.clock = ban
      first = first + unit
    end
    local l, i = newLimit(op, head, kind, rate, capacity, unit, ban, starts), #plan + 1
    local pair = plan.pairs[l.place] or newPair()
    plan[i], plan.pairs[l.place] = l, pair
    if l.begins then
      claim = {first = i, pair = pair, dryRun = l.dryRun}
      table.insert(plan.claims, claim)
      if l.leased then
        table.insert(plan.leases, claim)
      end
    end
    claim.last = i
    plan.dry = plan.dry or l.dryRun and {}
    table.insert(l.dryRun and plan.dry or plan.live, l)
    plan.odd = addToPair(pair, l, claim) or plan.odd or l.peek or l.dryRun or l.rate == 0
    plan.rare = plan.rare or plan.odd or l.hold
  end
  plan.count, plan.leased, plan.behind = #plan, #plan.leases > 0, 1 + word * claimWords * #plan.claims
  if op == 'r' then
    plan.pairs = {newPair()}
  end
  plan.keys = #plan.pairs
  clearRare(plan)
  return plan
end

-- askedOf returns the cost of all claims that are charged to the state of a limit. One in flight counts requests.
local function askedOf(l)
  local unit = l.kind == 0 and 1 or maxExact
  local asked = min(l.claim.cost, unit)
  for _, other in ipairs(l.beside or {}) do
    asked = min(asked + min(other.cost, unit), maxExact)
  end
  return asked
end

-- setNumbers sets the costs and waits of the claims of a plan from the words of a request.
local function setNumbers(plan, numbers)
  plan.numbers = numbers
  for n = 1, #plan.claims do
    local claim = plan.claims[n]
    claim.cost, claim.maxWait = unpackWords(formats[2], numbers, 1 + word * claimWords * (n - 1))
  end
  for i = 1, plan.count do
    local l = plan[i]
    local asked, period = (l.beside or l.kind == 0) and askedOf(l) or l.claim.cost, l.period
    l.asked, l.room = asked, period and l.full - asked * period or l.rate - asked
  end
end

-- isFar reports whether the clock of the process that made a plan with calendars differs by more than a day from now.
local function isFar(plan, now)
  return now <= plan.clock - day or now >= plan.clock + minute + day
end

-- plans[text] is the plan of a text.
local planCount = 0
local plans = setmetatable({}, {__index = function(all, text)
  if planCount >= maxPlans then
    planCount = 0
    for old in pairs(all) do
      all[old] = nil
    end
  end
  all[text], planCount = newPlan(text), planCount + 1
  return all[text]
end})
