-- A plan is what a request asks for, apart from whose it is, so that most requests of a run are of one plan. Its text is
-- that of its meters, apart by semicolons, and that of a meter is, apart by spaces:
--
--   new      1 if it begins a claim, else 0
--   place    that of its key among those of the request, from 1
--   flags    1 if it is a peek, 2 if it is a dry run, 3 if both, else 0
--   cost     of the claim
--   asked    the cost of all claims that charge this state
--   letter   b token bucket, w fixed window, s sliding window, l sliding log
--   kind     see pair.lua
--   micros   the period in µs
--   rate
--   capacity
--   unit     microseconds per tick (b) or per sub-bucket (s), else 0
--
-- A plan is plain if it is all token buckets in ticks of 1 µs, each to be charged what its claim asks.
local function addMeter(plan, text)
  local new, place, flags, cost, asked, letter, kind, micros, rate, capacity, unit =
    match(text, '^(%d) (%d+) (%d) (%d+) (%d+) (%a) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  local l = {
    new = new == '1', place = tonumber(place), peek = flags == '1' or flags == '3', dryRun = flags >= '2',
    cost = tonumber(cost), asked = tonumber(asked), letter = letter, name = letter .. micros, kind = tonumber(kind), micros = tonumber(micros),
    rate = tonumber(rate), capacity = tonumber(capacity), tick = tonumber(unit), width = tonumber(unit),
  }
  if letter == 'b' then
    l.period = ceilDiv(l.micros, l.tick)
  end
  plan.plain = plan.plain and letter == 'b' and l.tick == 1 and flags == '0' and cost == asked and
    l.rate > 0 and l.cost <= l.capacity and l.place >= plan.keys
  plan.keys = max(plan.keys, l.place)
  plan[#plan + 1] = l
end

local function newPlan(text)
  local plan = {keys = 0, plain = true}
  for meter in string.gmatch(text, '[^;]+') do
    addMeter(plan, meter)
  end
  plan.plain = plan.plain and plan.keys <= 1000
  return plan
end
