-- Gives back what a take charged, as far as it still counts, and says what that leaves.
--
-- ARGV: the shift of the clock, the instant of the take, then the text of each meter. A peek gives nothing back.
-- Returns what take.lua returns.

-- refund gives back the cost, charged at an earlier instant.
local function refund(t, now, at)
  local l = t.limit
  local cost = min(t.cost, l.capacity)
  if cost > 0 and not t.peek then
    keep(t, l.algorithm.refund(stored(t, now), l, now, at, cost), now)
  end
end

local now, at = clock(), tonumber(ARGV[2])
local meters, reply = {}, {now, 0}
for i = 3, #ARGV do
  meters[i - 2] = newMeter(ARGV[i])
  refund(meters[i - 2], now, at)
end
for _, t in ipairs(meters) do
  open(t, now)
  decide(t, now)
end
report(meters, now, reply)
saveAll(now)
reply[2] = repaired
return reply
