-- Gives back what a take charged a request, as far as it still counts, and says what that leaves.
--
-- KEYS: those of the request.
-- ARGV: the shift of the clock, the instant of the take, the plan. A peek gives nothing back.
-- Returns what take.lua returns for a request whose plan is not plain.

-- refund gives back the cost, charged at an earlier instant.
local function refund(t, now, at)
  local l = t.limit
  local cost = min(t.cost, l.capacity)
  if cost > 0 and not t.peek then
    keep(t, l.algorithm.refund(stored(t, now), l, now, at, cost), now)
  end
end

local now, at = clock(), tonumber(ARGV[2])
local meters = newMeters(newPlan(ARGV[3]), 1)
for _, t in ipairs(meters) do
  refund(t, now, at)
end
for _, t in ipairs(meters) do
  open(t, now)
  decide(t, now)
end
report(meters, now)
saveAll(now)
reply[2] = repaired
return reply
