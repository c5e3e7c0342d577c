-- Runs the requests of a call, one after the other.
--
-- Keys: the keys of each request, one request after the other.
-- Arguments: for each plan its text; if it settles or has leased claims, a text with the words of all requests that have it, see
-- settle.lua and take.lua; and the number of those requests. The last plan has no number.
--
-- Returns words: the server's clock in microseconds since 1970, how many states made no sense and were replaced, and
-- for each request what take.lua and settle.lua say, or a code: failed if it could not be decided, because of an error
-- that the server's log has, or farOff if the clock of the process is more than a day off.

-- tooFar replies that the clock of the process is wrong.
local function tooFar(_, _, _, _, filled)
  out[filled + 1] = farOff
  return filled + 1
end

-- decideFrom decides the requests of a plan that were not tried yet, up to the last one. It counts a request in tried
-- before it decides it, so that a request that fails is not tried again.
local tried, filled
local function decideFrom(plan, decide, keyList, first, last, now, numbers)
  local keys, words = plan.keys, plan.words
  for n = tried, last - 1 do
    tried = n + 1
    filled = decide(plan, keyList, first + n * keys, now, filled, numbers, 1 + n * words)
  end
end

-- decideAll decides count requests of a plan. A request that fails does not spoil others. If it is the only one, its
-- error is the reply.
local function decideAll(plan, keyList, first, count, now, numbers)
  local decide = plan.clock and isFar(plan, now) and tooFar or plan.decide
  tried = 0
  if #keyList == plan.keys then
    decideFrom(plan, decide, keyList, first, count, now, numbers)
  end
  while tried < count do
    local ok, err = pcall(decideFrom, plan, decide, keyList, first, count, now, numbers)
    if not ok then
      redis.log(redis.LOG_WARNING, 'spillgate: ' .. (type(err) == 'table' and err.err or err))
      filled = filled + 1
      out[filled] = failed
    end
  end
end

-- run does what a call asks.
local function run(keyList, args)
  local time, plan = call('TIME'), plans[args[1]]
  local now, first, at = plan.now or time[1] * 1000000 + time[2], 1, 1
  repaired, filled = 0, 2
  repeat
    local numbers
    at = at + 1
    if plan.words > 0 then
      numbers, at = args[at], at + 1
    end
    local count = args[at] and tonumber(args[at]) or (#keyList - first + 1) / plan.keys
    decideAll(plan, keyList, first, count, now, numbers)
    first, at = first + count * plan.keys, at + 1
    local text = args[at]
    plan = text and plans[text]
  until not plan
  out[1], out[2] = now, repaired
  return textOf(out, filled)
end
