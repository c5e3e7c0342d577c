-- Runs the requests of a call, one after the other.
--
-- Keys: the keys of each request, one request after the other.
-- Arguments: for each request the text of its plan, which is empty if that is the plan of the request before, and its words: see
-- plan.lua. One more argument is an instant for tests at which the call is decided, in microseconds since 1970.
--
-- Returns words: the server's clock in microseconds since 1970, how many states made no sense and were replaced, and for each request
-- what op.lua says, or a code: failed if it could not be decided, because of an error that the server's log has, or farOff if the
-- clock of the process is more than a day off.

-- doFrom does the requests that were not tried yet: tried is the argument that the next one begins with, first how many keys those
-- before it have. It counts a request before it does it, so that one that fails is not tried again.
local minute, day = 60000000, 86400000000
local plan, tried, first, filled
local function doFrom(keyList, args, count, now)
  for i = tried, count - 1, 2 do
    local text, numbers, key = args[i], args[i + 1], first
    if text ~= '' then
      plan = plans[text]
    end
    local plan, clock = plan, plan.clock
    tried, first = i + 2, key + plan.keys
    if numbers ~= plan.numbers then -- mostly all cost 1
      setNumbers(plan, numbers)
    end
    if clock and (now <= clock - day or now >= clock + minute + day) then
      filled = filled + 1
      out[filled] = packed(farOff, 1)
    else
      filled = plan.isPlain and doPlain(plan, keyList, key, now, filled) or doApart(plan, keyList, key, now, filled)
    end
  end
end

-- run does what a call asks. A request that fails does not spoil others. If it is the only one, its error is the reply.
local function run(keyList, args)
  local time, count = call('TIME'), #args
  local now = count % 2 == 0 and time[1] * 1000000 + time[2] or tonumber(args[count])
  tried, first, repaired, filled = 1, 0, 0, 1
  if count < 4 then
    doFrom(keyList, args, count, now)
  end
  while tried < count do
    local ok, err = pcall(doFrom, keyList, args, count, now)
    if not ok then
      redis.log(redis.LOG_WARNING, 'spillgate: ' .. (type(err) == 'table' and err.err or err))
      filled = filled + 1
      out[filled] = packed(failed, 1)
    end
  end
  out[1] = pack(twoWords, now, repaired)
  return filled == 2 and out[1] .. out[2] or concat(out, '', 1, filled) -- .. is faster
end
