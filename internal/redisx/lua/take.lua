-- Decides requests, one after the other, each all or nothing by itself.
-- Uses word (word), clock, filled, logError, repaired, reply (reply), newPlan (limit), decidePlain, isPlain
-- (plain), decidePlainLeased, leaseWords (plainlease), decideHeld (decidehold).
--
-- KEYS: those of each request, one request after the other.
-- ARGV: the shift of the clock, then plans, each with the number of requests that have it and a text with five words for each
-- of their leased claims: see lease.lua.
-- Returns the instant, how many states were repaired, and for each request
--
--   the level of each limit, or -4 less the level if the request is denied, if its plan is plain and does not hold,
--   or -1, or -3 if requests under way are what denies it, and four numbers for each limit: retry, remaining, refill, reset,
--   and then, if it has leased claims, how many requests were charged ahead for each of those;
--   or -2 if it could not be decided, because of an error that the server's log has.
local now, first = clock(), 1
local decideRequest, decideLeased

-- tryRequest decides a request of any limits, whose leases begin at a byte of numbers. If it fails, that does not spoil the
-- others.
local function tryRequest(plan, numbers, start)
  if not decideRequest then
    decideRequest, decideLeased = newDecideRequest()
  end
  local before = filled
  local ok, err = pcall(plan.leases > 0 and decideLeased or decideRequest, plan, first, now, numbers, start)
  if not ok and #KEYS == plan.keys then
    error(err, 0)
  elseif not ok then
    logError(err)
    filled = before + 1
    reply[filled] = -2
  end
end

-- tryPlain decides a plain request, and reports whether it could.
local function tryPlain(plan, numbers, start)
  if plan.held then
    return decideHeld(plan, first, now)
  elseif plan.leases > 0 then
    return decidePlainLeased(plan, first, now, numbers, start)
  end
  return decidePlain(plan, first, now)
end

for i = 2, #ARGV, 3 do
  local plan = newPlan(ARGV[i])
  local plain, start = isPlain(plan), 1
  for _ = 1, tonumber(ARGV[i + 1]) do
    if not (plain and tryPlain(plan, ARGV[i + 2], start)) then
      tryRequest(plan, ARGV[i + 2], start)
    end
    first = first + plan.keys
    start = start + leaseWords * word * plan.leases
  end
end
reply[2] = repaired
return reply
