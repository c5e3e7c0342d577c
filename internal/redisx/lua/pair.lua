-- The pair of a rule and a key is one hash.
-- Uses ceilDiv, floorDiv, max (number), pack, unpackWords, word (word), call, repaired (reply), expiryOf, expiryWith
-- (expiry), tokenBucket (tokenbucket), fixedWindow (fixedwindow), sliding (sliding), inFlight (inflight), holdsEnd,
-- readBan, readHolds (hold).
--
-- A hash has a field for the state of each limit, named after its algorithm and its period in µs, as b60000000, and fields for
-- what the pair is besides. Fields of limits that a tier or a configuration no longer has are left alone until they have ended.
--
--   b       token bucket     expires, level, at, busy, rate, slowest · 4 + code of the tick, and its lows: see lows.lua
--   w       fixed window     expires, used, start
--   s       sliding window   expires, used, number of blocks, list of blocks, entries: see sliding.lua and block.lua
--   l       sliding log      likewise
--   hold    what requests in flight hold: see hold.lua
--   ban     until when nothing fits: see hold.lua
--   reset   when the pair was last reset: see reset.lua
local algorithms = {b = tokenBucket, w = fixedWindow, s = sliding, l = sliding, f = inFlight}

-- readPair returns the pair at key, with the states of these fields, of which the last two are hold and ban. A key of another
-- type is removed, and all its limits count as used up.
local function readPair(key, names, now)
  local pair = {key = key, names = names, values = {}, states = {}, dirty = {}, expires = 0, ban = 0}
  local values = redis.pcall('HMGET', key, unpack(names))
  if not values.err then
    pair.values = values
  elseif string.find(values.err, 'WRONGTYPE', 1, true) then
    call('DEL', key)
    pair.broken = true
  else
    error(values.err, 0)
  end
  local ok
  pair.holds, ok = readHolds(pair.values[#names - 1], now)
  pair.ban = readBan(pair.values[#names])
  repaired = repaired + (ok and 0 or 1)
  return pair
end

-- keepState makes state the one that is stored.
local function keepState(pair, l, state)
  pair.states[l.name], pair.dirty[l.name] = state, l
end

-- valueOf returns the field of l.
local function valueOf(pair, l)
  for i, name in ipairs(pair.names) do
    if name == l.name then
      return pair.values[i]
    end
  end
end

-- stateOf returns the state of l. One that makes no sense becomes that of a limit just used up, which neither admits anew
-- nor denies for ever.
local function stateOf(pair, l, now)
  local state = pair.states[l.name]
  if state then
    return state
  end
  local algorithm, value = algorithms[l.letter], valueOf(pair, l)
  if not value and not pair.broken or algorithm == inFlight then
    state = algorithm.empty(l, pair)
    pair.states[l.name] = state
    return state
  end
  local expires = value and expiryOf(value, now)
  state = expires and algorithm.decode(value, l, pair)
  if state then
    pair.expires = max(pair.expires, expires)
    pair.states[l.name] = state
    return state
  end
  repaired = repaired + 1
  state = algorithm.full(l, now, pair)
  keepState(pair, l, state)
  return state
end

-- resetAt returns when a pair was last reset.
local function resetAt(pair)
  local value = call('HGET', pair.key, 'reset')
  if not value or #value ~= 2 * word then
    return 0
  end
  return (unpackWords('<I8', value, word + 1))
end

-- storeFields stores what has changed of a pair, to be kept until expires.
local function storeFields(pair, expires)
  for name, l in pairs(pair.dirty) do
    call('HSET', pair.key, name, algorithms[l.letter].encode(pair.states[name], expires))
  end
  if pair.banned then
    call('HSET', pair.key, 'ban', pack('<I8I8', expires, pair.ban))
  end
  local h = pair.holds
  if h.changed and h.text ~= '' then
    call('HSET', pair.key, 'hold', pack('<I8I8I8', expires, h.cost, h.count) .. h.text)
  elseif h.changed then -- at last: a key that has been removed cannot be written in a slot that is migrating
    call('HDEL', pair.key, 'hold')
  end
end

-- endOf returns when all that has changed of a pair has ended, or 0 if nothing has changed.
local function endOf(pair)
  local last = 0
  for name, l in pairs(pair.dirty) do
    last = max(last, algorithms[l.letter].ends(pair.states[name], l))
  end
  if pair.holds.changed then
    last = max(last, 1, holdsEnd(pair.holds))
  end
  return pair.banned and max(last, pair.ban) or last
end

-- savePair stores what has changed of a pair.
local function savePair(pair, now)
  local last = ceilDiv(endOf(pair), 1000)
  if last == 0 then
    return
  end
  local milliseconds = floorDiv(now, 1000)
  local expires = expiryWith(pair.key, pair.expires, last, milliseconds)
  storeFields(pair, expires)
  if expires > pair.expires then
    call('PEXPIRE', pair.key, expires - milliseconds)
  end
end
