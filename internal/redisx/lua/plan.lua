-- A plan: what a request asks for, without its keys.
--
-- Requests with the same plan are sent and decided together, and the library keeps plans that it has read. The text of a
-- plan is a letter, t for a Take, s for a Settle or r for a reset, and eight numbers for each limit of each claim. A
-- claim without limits, which is a ban, has eight as well. The letter may be followed by an instant for tests, at which
-- the call is decided, in microseconds since 1970.
--
--   head      1 if a claim begins + 2 for a peek + 4 for a dry run + 8 if it holds + 16 if it is leased + 32 if it may
--             wait for its turn + 64 · place of its key among the request's keys, from 1
--   kind      period in µs · 16 + 0 for a token bucket, 4 a fixed window, 8 a sliding window, 12 a sliding log; 0 for a
--             limit in flight
--   cost      of the claim
--   asked     the cost of all claims that charge this state
--   rate
--   capacity
--   unit      microseconds per tick of a token bucket, or per sub-bucket of a sliding window, else 0
--   ban       microseconds that a token bucket denies for once it is used up or, if the claim may wait, for how long; else 0
--
-- For a calendar window, the kind is calendar · 16 + 4, the unit is how many starts of windows follow these numbers, in
-- ascending order, and the ban is the process's clock, as the microseconds since 1970 at which its minute began.
local settleWords, leaseWords = 5, 5 -- of each claim that is settled, or leased: see settle.lua and take.lua
local minute, day = 60000000, 86400000000
local maxPlans = 1000
local decisions = {} -- what a plan does, by its letter: take.lua and settle.lua add them

-- newLimit returns the limit of eight numbers.
local function newLimit(head, kind, cost, asked, rate, capacity, unit, ban, starts)
  local flags, micros, algorithm = head % 64, floorDiv(kind, 16), kind > 0 and algorithms[kind % 16] or inFlight
  local l = {
    begins = flags % 2 == 1, peek = flags % 4 >= 2, dryRun = flags % 8 >= 4, hold = flags % 16 >= 8, leased = flags % 32 >= 16,
    place = (head - flags) / 64, algorithm = algorithm, kind = kind, name = format('%d', kind), micros = micros,
    cost = cost, asked = asked, rate = rate, capacity = capacity, unit = unit, ban = ban, starts = starts,
    load = algorithm.load, wait = algorithm.wait, charge = algorithm.charge, report = algorithm.report, ends = algorithm.ends,
    size = algorithm.size, replied = algorithm.replied, never = asked > capacity and -1, room = rate - asked, o = 0,
  }
  if rate == 0 then -- nothing is ever admitted
    l.charge = inFlight.charge
  end
  if kind == 0 then
    l.room = l.never or math.huge
  end
  if flags >= 32 then
    l.maxWait, l.ban = ban, 0
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

-- addToPair adds a limit to its pair, and reports whether the pair has its kind already.
local function addToPair(pair, l)
  local same = pair.kinds[-l.kind]
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
  local op, now, rest = string.match(text, '^(%a)(%d*)(.*)$')
  local plan = {op = op, decide = decisions[op], rare = op ~= 't', now = tonumber(now), live = {}, claims = {}, leases = {}, pairs = {}}
  local numbers = {}
  for n in string.gmatch(rest, '%d+') do
    numbers[#numbers + 1] = tonumber(n)
  end
  local first, claim = 1, nil
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
    local pair = plan.pairs[l.place] or newPair()
    plan[i], plan.pairs[l.place] = l, pair
    if l.begins then
      claim = {first = i, pair = pair, dryRun = l.dryRun}
      table.insert(plan.claims, claim)
      if l.leased then
        table.insert(plan.leases, claim)
      end
    end
    l.claim, claim.last = claim, i
    plan.dry = plan.dry or l.dryRun and {}
    table.insert(l.dryRun and plan.dry or plan.live, l)
    plan.odd = addToPair(pair, l) or plan.odd or l.peek or l.dryRun or l.rate == 0
    plan.rare = plan.rare or plan.odd or l.hold
  end
  plan.count, plan.words = #plan, word * (op == 's' and settleWords * #plan.claims or leaseWords * #plan.leases)
  if op == 'r' then
    plan.pairs = {newPair()}
  end
  plan.keys = #plan.pairs
  clearRare(plan)
  return plan
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
