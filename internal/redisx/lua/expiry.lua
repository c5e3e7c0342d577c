-- A string expires a second after its last state ends: so a busy key needs another expiry only once in a second, which
-- spares the server half the time of a write.
local slack = 1000

-- lastInstant returns when no state of ours ends later, in milliseconds since 1970. Only now is in microseconds.
local function lastInstant(now)
  return (now + 2 * maxExact) / 1000
end

-- store writes a string that is to expire at expires.
local function store(key, value, expires, now)
  call('SET', key, value, 'PX', expires - (now - now % 1000) / 1000)
end
