-- Runs the requests of a call, one after the other.
--
-- Keys: those of each request, one request after the other.
-- Arguments: for each plan its text; if it settles or has leased claims, a text with the words of all requests that have it, see
-- settle.lua and take.lua; and the number of those requests, which the last plan does without.
--
-- Returns the server's clock in microseconds since 1970, how many states made no sense and were replaced, and for each request what
-- take.lua and settle.lua say, or -2 if it could not be decided, because of an error that the server's log has, or -3 if the clock of the
-- process is more than a day off.
local failed, farOff = -2, -3
local ops = {t = take, s = settle, r = resetPair}
local keyList, args, now -- of the call
local at, first, start, left = 1, 1, 1, 0 -- the next argument, key and byte of numbers, and how many requests of the plan are left
local plan, numbers = nil, nil
local before = nil -- what was replied before the request that is under way, if one is

-- work does all requests that are left.
local function work()
  while left > 0 or args[at] do
    if left == 0 then
      plan, start, at = planOf(args[at]), 1, at + 1
      if plan.words > 0 then
        numbers, at = args[at], at + 1
      end
      left, at = args[at] and tonumber(args[at]) or (#keyList - first + 1) / plan.keys, at + 1
    end
    local key, byte = first, start
    left, first, start, before = left - 1, first + plan.keys, start + plan.words, filled
    if isNear(plan, now) then
      ops[plan.op](plan, keyList, key, now, numbers, byte)
    else
      filled = filled + 1
      reply[filled] = farOff
    end
    before = nil
  end
end

-- run does what a call asks. It replies in a table that all calls use.
local function run(callKeys, callArgs)
  local time = call('TIME')
  keyList, args, now = callKeys, callArgs, time[1] * 1000000 + time[2] + planOf(callArgs[1]).shift
  at, first, left, before, filled, repaired = 1, 1, 0, nil, 2, 0
  local ok, err = pcall(work)
  while not ok do -- a request that fails does not spoil the others
    if not before or before == 2 and first > #keyList then
      error(err, 0)
    end
    redis.log(redis.LOG_WARNING, 'spillgate: ' .. (type(err) == 'table' and err.err or err))
    filled, reply[before + 1] = before + 1, failed
    before, ok, err = nil, pcall(work)
  end
  reply[1], reply[2], reply[filled + 1] = now, repaired, nil
  return reply
end
