-- The reply of a script.
-- Uses nothing.
--
-- A reply is the server's clock, how many states made no sense and were replaced, and then what each request gets.
local call, tryCall = redis.call, redis.pcall
local reply, filled, repaired = {0, 0}, 2, 0

-- logError logs why a request could not be decided.
local function logError(err)
  redis.log(redis.LOG_WARNING, 'spillgate: ' .. (type(err) == 'table' and err.err or err))
end

-- clock returns the server's clock in microseconds since 1970. Tests shift it by the first argument.
local function clock()
  local time = call('TIME')
  reply[1] = time[1] * 1000000 + time[2] + ARGV[1]
  return reply[1]
end
