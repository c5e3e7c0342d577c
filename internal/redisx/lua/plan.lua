-- A plan is what a request asks for, apart from whose it is, so that most requests of a run are of one plan. Its text is
-- seven words for each meter:
--
--   head      1 if it begins a claim + 2 if it is a peek + 4 if it is a dry run + 8 · place of its key among those of the
--             request, from 1
--   kind      period in µs · 16 + algorithm · 4: 0 token bucket, 1 fixed window, 2 sliding window, 3 sliding log
--   cost      of the claim
--   asked     the cost of all claims that charge this state
--   rate
--   capacity
--   unit      microseconds per tick of a bucket, or per sub-bucket of a sliding window, else 0
--
-- A plan is plain if it is all token buckets in ticks of 1 µs, each to be charged what its claim asks.
local function newPlan(text)
  local plan, keys, plain = {}, 0, true
  for at = 1, #text, 7 * word do
    local head, kind, cost, asked, rate, capacity, unit = unpackWords('<I8I8I8I8I8I8I8', text, at)
    local place = (head - head % 8) / 8
    plan[#plan + 1] = {
      head = head, place = place, kind = kind, micros = (kind - kind % 16) / 16, cost = cost, asked = asked, rate = rate,
      capacity = capacity, unit = unit,
    }
    plain = plain and kind % 16 == 0 and unit == 1 and head % 8 <= 1 and cost == asked and
      cost <= capacity and place >= keys
    keys = max(keys, place)
  end
  plan.keys, plan.plain = keys, plain and keys <= 1000
  return plan
end
