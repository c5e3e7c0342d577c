-- A plan: what a request asks for, without its keys.
--
-- Requests with the same plan are sent and decided together, and the server keeps plans that it has read. The text of a plan is a
-- letter, t for a Take, s for a Settle or r for a reset, and eight numbers for each limit of each claim. A claim without limits, which
-- is a ban, has eight as well. The letter may be followed by an instant for tests, at which the call is decided, in microseconds since 1970.
--
--   head      1 if a claim begins + 2 for a peek + 4 for a dry run + 8 if it holds + 16 if it is leased + 32 if it may wait for its
--             turn + 64 · place of its key among the request's keys, from 1
--   kind      period in µs · 16 + 0 for a token bucket, 4 a fixed window, 8 a sliding window, 12 a sliding log; 0 for a limit in flight
--   cost      of the claim
--   asked     the cost of all claims that charge this state
--   rate
--   capacity
--   unit      microseconds per tick of a token bucket, or per sub-bucket of a sliding window, else 0
--   ban       microseconds that a token bucket denies for once it is used up or, if the claim may wait, for how long; else 0
--
-- For a calendar window, the kind is calendar · 16 + 4, the unit is how many starts of windows follow these numbers, in ascending order,
-- and the ban is the process's clock, as the microseconds since 1970 at which its minute began.
local settleWords, leaseWords = 5, 5 -- of each claim that is settled, or leased: see settle.lua and take.lua
local minute, day = 60000000, 86400000000
local maxPlans = 1000
local plans, planCount = {}, 0

-- newLimit returns the limit of eight numbers.
local function newLimit(head, kind, cost, asked, rate, capacity, unit, ban, starts)
  local flags, micros, algorithm = head % 64, floorDiv(kind, 16), kind > 0 and algorithmOf(kind) or inFlight
  local l = {
    begins = flags % 2 == 1, peek = flags % 4 >= 2, dryRun = flags % 8 >= 4, hold = flags % 16 >= 8, leased = flags % 32 >= 16,
    place = (head - flags) / 64, algorithm = algorithm, kind = kind, name = format('%d', kind), micros = micros,
    cost = cost, asked = asked, rate = rate, capacity = capacity, unit = unit, ban = ban, starts = starts,
    load = algorithm.load, wait = algorithm.wait, charge = algorithm.charge, report = algorithm.report, ends = algorithm.ends,
    size = algorithm.size, never = asked > capacity and -1, lows = kind + 1, o = 0,
  }
  if flags >= 32 then
    l.maxWait, l.ban = ban, 0
  end
  if algorithm == tokenBucket then
    l.code = unit == 1 and 0 or unit == 1000 and 1 or 2 -- its place in tickOf
    l.period = ceilDiv(micros, unit)
    l.full = capacity * l.period
    if l.peek then
      l.naming = newLimit(head - 2, kind, cost, asked, rate, capacity, unit, ban)
    end
  end
  return l
end

-- newPlan reads a plan. Besides its limits it has the number of keys, the claims with their first and last limits, the limits of each
-- pair, and the first limit of each kind by -kind: miniredis allocates all up to a large number that is a positive index.
local function newPlan(text)
  local op, now, rest = string.match(text, '^(%a)(%d*)(.*)$')
  local plan = {op = op, rare = op ~= 't', now = tonumber(now), keys = 0, claims = {}, leases = {}, pairs = {}, kinds = {}}
  local numbers = {}
  for n in string.gmatch(rest, '%d+') do
    numbers[#numbers + 1] = tonumber(n)
  end
  local first = 1
  while first <= #numbers do
    local head, kind, cost, asked, rate, capacity, unit, ban = unpack(numbers, first, first + 7)
    first = first + 8
    local starts
    if kind >= firstCalendar then
      starts = {unpack(numbers, first, first + unit - 1)}
      plan.clock = ban
      first = first + unit
    end
    local l, i = newLimit(head, kind, cost, asked, rate, capacity, unit, ban, starts), #plan + 1
    plan[i] = l
    if l.place > plan.keys then
      plan.keys, plan.pairs[l.place], plan.kinds[l.place] = l.place, {count = 0}, {}
    end
    if l.begins then
      l.claim = {first = i, place = l.place, dryRun = l.dryRun, peek = l.peek, hold = l.hold, cost = l.cost}
      table.insert(plan.claims, l.claim)
      if l.leased then
        table.insert(plan.leases, l.claim)
      end
    end
    plan.claims[#plan.claims].last = i
    local pair = plan.pairs[l.place]
    table.insert(pair, l)
    pair.count = #pair
    local kinds = plan.kinds[l.place]
    if kinds[-l.kind] then
      l.same, plan.rare = kinds[-l.kind], true
    elseif l.kind > 0 then
      kinds[-l.kind], kinds[-l.kind - heldMark] = l, l
    end
    plan.dryRuns = plan.dryRuns or l.dryRun
    plan.rare = plan.rare or l.peek or l.hold or l.dryRun
  end
  plan.count, plan.words = #plan, word * (op == 's' and settleWords * #plan.claims or leaseWords * #plan.leases)
  if op == 'r' then
    plan.keys, plan.pairs, plan.kinds = 1, {{}}, {{}}
  end
  return plan
end

-- isNear reports whether the clock of the process that made a plan differs by at most a day from now, as far as the plan needs it.
local function isNear(plan, now)
  return not plan.clock or now > plan.clock - day and now < plan.clock + minute + day
end

-- planOf returns the plan of a text.
local function planOf(text)
  local plan = plans[text]
  if not plan then
    if planCount >= maxPlans then
      plans, planCount = {}, 0
    end
    plan = newPlan(text)
    plans[text], planCount = plan, planCount + 1
  end
  return plan
end
