-- Decides requests, one after the other, each all or nothing by itself.
--
-- KEYS: those of each request, one request after the other.
-- ARGV: the shift of the clock, then plans, each with the number of requests that are of it, and 1 if a key may be there
--       more than once among those, else 0.
-- Returns the instant, how many states were repaired, and for each request
--
--   the level of each limit, or -3 less the level if the request is denied, if its plan is plain,
--   or -1 and four numbers for each limit: retry, then remaining, refill and reset or, of a token bucket, level, rest and 0,
--   or -2 if it could not be decided, because of an error that the server's log has.
local now, first = clock(), 1
local decideOne, takePlain

-- alone decides a request by itself. If it fails, that does not spoil the others.
local function alone(plan, place)
  decideOne = decideOne or general()
  local before = filled
  local ok, err = pcall(decideOne, plan, place, now)
  if not ok and #ARGV == 4 and ARGV[3] == '1' then
    error(err, 0)
  elseif not ok then
    redis.log(redis.LOG_WARNING, 'spillgate: ' .. (type(err) == 'table' and err.err or err))
    filled = before + 1
    reply[filled] = -2
  end
end

for i = 2, #ARGV, 3 do
  local plan, count, repeats = newPlan(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2] == '1'
  if plan.plain and #plan == 1 then
    takeSingle(plan, first, count, repeats, now, alone)
  elseif plan.plain then
    takePlain = takePlain or buckets()
    takePlain(plan, first, count, repeats, now, alone)
  else
    for n = 0, count - 1 do
      alone(plan, first + n * plan.keys)
    end
  end
  first = first + count * plan.keys
end
reply[2] = repaired
return reply
