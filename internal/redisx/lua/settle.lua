-- Settles requests: replaces what they were charged, or held, by what they cost after all, renews holds, bans.
-- Uses word (word), clock, filled, logError, repaired, reply (reply), newPlan (limit), isPlainSettle, settlePlain,
-- settleWords (plainsettle).
--
-- KEYS: those of each request, one request after the other.
-- ARGV: the shift of the clock, then plans, each with the number of requests that have it and five words for each of their claims:
--
--   at      when it was charged, held or last renewed, in microseconds since 1970; 0 if it is not known
--   cost    what it was charged or held
--   final   what it costs after all
--   ban     microseconds for which nothing is to fit; else 0
--   flags   1 if cost was held + 2 to keep the hold
--
-- Returns the instant, how many states were repaired, and for each request what take.lua returns for one that is not plain, if it
-- asks for something; else for each claim when it is held from now on, or 0.
local now, first = clock(), 1
local settleRequest

-- trySettle settles a request of any limits, whose claims begin at a byte of numbers. If it fails, that does not spoil the
-- others.
local function trySettle(plan, numbers, start)
  if not settleRequest then
    settleRequest = newSettleRequest()
  end
  local before = filled
  local ok, err = pcall(settleRequest, plan, first, now, numbers, start)
  if not ok and #KEYS == plan.keys then
    error(err, 0)
  elseif not ok then
    logError(err)
    filled = before + 1
    reply[filled] = -2
  end
end

for i = 2, #ARGV, 3 do
  local plan, start = newPlan(ARGV[i]), 1
  local plain = isPlainSettle(plan)
  for _ = 1, tonumber(ARGV[i + 1]) do
    if not (plain and settlePlain(plan, first, now, ARGV[i + 2], start)) then
      trySettle(plan, ARGV[i + 2], start)
    end
    start = start + settleWords * word * plan.claims
    first = first + plan.keys
  end
end
reply[2] = repaired
return reply
