-- Runs the requests of a call, one after the other.
--
-- Keys: the keys of each request, one request after the other.
-- Arguments: for each request the text of its plan, which is empty if that is the plan of the request before, and its words: see
-- plan.lua. One more argument is an instant for tests at which the call is decided, in microseconds since 1970.
--
-- Returns words: the server's clock in microseconds since 1970, how many states made no sense and were replaced, and
-- for each request what take.lua and settle.lua say, or a code: failed if it could not be decided, because of an error
-- that the server's log has, or farOff if the clock of the process is more than a day off.

-- tooFar replies that the clock of the process is wrong.
local function tooFar(_, _, _, _, filled)
  out[filled + 1] = farOff
  return filled + 1
end

-- decideFrom decides the requests that were not tried yet. It counts a request in tried, and its keys, before it decides it, so
-- that a request that fails is not tried again.
local plan, first, tried, filled
local function decideFrom(keyList, args, count, now)
  while tried < count do
    local text, numbers, key = args[2 * tried + 1], args[2 * tried + 2], first
    plan = text == '' and plan or plans[text]
    tried, first = tried + 1, first + plan.keys
    if numbers ~= plan.numbers then -- mostly all cost 1
      setNumbers(plan, numbers)
    end
    local decide = plan.clock and isFar(plan, now) and tooFar or plan.decide
    filled = decide(plan, keyList, key, now, filled, numbers)
  end
end

-- run does what a call asks. A request that fails does not spoil others. If it is the only one, its error is the reply.
local function run(keyList, args)
  local time, count = call('TIME'), floorDiv(#args, 2)
  local now = tonumber(args[2 * count + 1]) or time[1] * 1000000 + time[2]
  first, tried, repaired, filled = 1, 0, 0, 2
  if count == 1 then
    decideFrom(keyList, args, count, now)
  end
  while tried < count do
    local ok, err = pcall(decideFrom, keyList, args, count, now)
    if not ok then
      redis.log(redis.LOG_WARNING, 'spillgate: ' .. (type(err) == 'table' and err.err or err))
      filled = filled + 1
      out[filled] = failed
    end
  end
  out[1], out[2] = now, repaired
  return textOf(out, filled)
end
