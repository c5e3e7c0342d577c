-- Runs the requests of a call, one after the other.
--
-- Keys: the keys of each request, one request after the other.
-- Arguments: for each plan its text; if it settles or has leased claims, a text with the words of all requests that have it, see
-- settle.lua and take.lua; and the number of those requests, which the last plan does without.
--
-- Returns words: the server's clock in microseconds since 1970, how many states made no sense and were replaced, and
-- for each request what take.lua and settle.lua say, or -2 if it could not be decided, because of an error that the
-- server's log has, or -3 if the clock of the process is more than a day off.
local failed, farOff = -2, -3

-- tooFar replies that the clock of the process is wrong.
local function tooFar(_, _, _, _, filled)
  out[filled + 1] = farOff
  return filled + 1
end

-- attempt decides a request of several: one that fails does not spoil the others.
local function attempt(plan, keyList, first, now, filled, numbers, start)
  local ok, n = pcall(plan.decide, plan, keyList, first, now, filled, numbers, start)
  if not ok then
    redis.log(redis.LOG_WARNING, 'spillgate: ' .. (type(n) == 'table' and n.err or n))
    n = filled + 1
    out[n] = failed
  end
  return n
end

-- run does what a call asks.
local function run(keyList, args)
  local time, plan = call('TIME'), plans[args[1]]
  local now, first, at, filled = plan.now or time[1] * 1000000 + time[2], 1, 1, 2
  repaired = 0
  repeat
    local numbers, start = nil, 1
    at = at + 1
    if plan.words > 0 then
      numbers, at = args[at], at + 1
    end
    local decide, count, left = plan.decide, plan.keys, args[at]
    if plan.clock and isFar(plan, now) then
      decide = tooFar
    elseif #keyList > count then
      decide = attempt
    end
    for _ = 1, left and tonumber(left) or (#keyList - first + 1) / count do
      filled = decide(plan, keyList, first, now, filled, numbers, start)
      first, start = first + count, start + plan.words
    end
    at = at + 1
    plan = left and args[at] and plans[args[at]]
  until not plan
  out[1], out[2] = now, repaired
  return textOf(out, filled)
end
