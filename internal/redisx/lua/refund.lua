-- Gives back what a take charged a request, as far as it still counts, and says what that leaves. Uses newPlan (limit), clock,
-- reply, repaired (reply), stateOf, keepState, savePair (pair), newAsks, open, decide, report (decide).
--
-- KEYS: those of the request.
-- ARGV: the shift of the clock, the instant of the take, the plan. A peek gives nothing back.
-- Returns what take.lua returns for a request whose plan is not plain.
local now, at = clock(), tonumber(ARGV[2])
local plan = newPlan(ARGV[3])
local asks, pairsOf = newAsks(plan, 1)

-- refund gives back the cost of an ask, charged at an earlier instant. What was charged before a reset is forgotten.
local function refund(ask)
  local l, pair = ask.limit, ask.pair
  local cost = math.min(l.cost, l.capacity)
  if cost > 0 and not l.peek and at >= resetAt(pair) then
    keepState(pair, l, ask.algorithm.refund(stateOf(pair, l, now), l, now, at, cost))
  end
end

for i = 1, #asks do
  refund(asks[i])
end
for i = 1, #asks do
  open(asks[i], now)
  decide(asks[i], now)
end
for place = 1, plan.keys do
  savePair(pairsOf[place], now)
end
report(asks, now)
reply[2] = repaired
return reply
